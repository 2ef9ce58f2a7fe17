use std::panic::{RefUnwindSafe, UnwindSafe};

use super::*;
use crate::error::InvalidKeyReason;

fn bounds<T: Error + Send + Sync + UnwindSafe + RefUnwindSafe + Clone + 'static>() {}

#[test]
fn the_error_can_be_shared_cloned_and_boxed() {
    bounds::<LockError>();
    assert!(size_of::<LockError>() <= 104, "{}", size_of::<LockError>());
}

fn lost(reason: LostReason) -> LockError {
    LockError::Lost { key: "k".into(), reason, held_for: Duration::ZERO, renewals: 0 }
}

fn unavailable(key: &str, kinds: &[NodeErrorKind]) -> LockError {
    let node = |kind: &NodeErrorKind| NodeError::new("redis://db:1", *kind, "refused");
    LockError::Unavailable { key: key.into(), nodes: kinds.iter().map(node).collect() }
}

fn busy_after(waited: Duration) -> LockError {
    LockError::Timeout {
        key: "k".into(),
        waited,
        attempts: 1,
        holder: None,
        is_own: false,
        remaining: None,
        is_endless: false,
        position: None,
        is_kept_out: false,
        while_holding: Box::default(),
    }
}

#[test]
fn each_error_is_of_one_sort_at_most() {
    let busy = [busy_after(Duration::ZERO), LockError::already_held("k", AlreadyHeldReason::Leads)];
    let down = [
        unavailable("k", &[NodeErrorKind::NoReply]),
        LockError::TooManyWaiters { key: "k".into() },
    ];
    let over = [LostReason::Expired, LostReason::Stolen, LostReason::OuterReleased].map(lost);
    let other = [lost(LostReason::Released), LockError::NotInitialized];
    let sorts = |error: &LockError| (error.is_busy(), error.is_unavailable(), error.is_lost());
    assert!(busy.iter().all(|error| sorts(error) == (true, false, false)));
    assert!(down.iter().all(|error| sorts(error) == (false, true, false)));
    assert!(over.iter().all(|error| sorts(error) == (false, false, true)));
    assert!(other.iter().all(|error| sorts(error) == (false, false, false)));
}

/// One error of each variant.
fn each() -> Vec<(&'static str, LockError)> {
    let key = || "k".to_owned();
    let (took, waited) = (Duration::from_secs(2), Duration::from_secs(1));
    vec![
        ("InvalidKey", LockError::InvalidKey { key: key(), reason: InvalidKeyReason::Empty }),
        ("Timeout", busy_after(waited)),
        ("TurnTaken", LockError::TurnTaken { key: key(), waited }),
        ("Lost", lost(LostReason::Expired)),
        ("Unavailable", unavailable("k", &[NodeErrorKind::NoReply])),
        ("TooManyWaiters", LockError::TooManyWaiters { key: key() }),
        ("ShuttingDown", LockError::ShuttingDown { key: key() }),
        ("ExpireTooShort", LockError::ExpireTooShort { key: key(), took, expire: waited }),
        ("BackgroundThread", LockError::BackgroundThread { message: key() }),
        ("AlreadyHeld", LockError::already_held(&key(), AlreadyHeldReason::Leads)),
        ("InTask", LockError::InTask { key: key() }),
        ("Config", LockError::config("k")),
        ("NotInitialized", LockError::NotInitialized),
        ("AlreadyInitialized", LockError::AlreadyInitialized),
        ("ForkedProcess", LockError::ForkedProcess),
        ("Lost` with `Released", lost(LostReason::Released)),
    ]
}

/// A handler that asks for the status answers as the table says.
#[test]
fn the_table_of_errors_has_each_with_its_status() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/errors.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
    assert_eq!(rows.len(), each().len(), "a row for each");
    for (name, error) in each() {
        let row = rows.iter().find(|row| row.starts_with(&format!("| `{name}` |")));
        let cells: Vec<&str> = row.expect(name).split('|').map(str::trim).collect();
        assert_eq!(cells[3], error.http_status().to_string(), "{name}: {cells:?}");
        let is_of_no_sort = !error.is_invalid_key() && !error.is_busy() && !error.is_unavailable();
        assert!(!is_of_no_sort || error.is_caller_error() || error.is_lost(), "{name}");
        assert_eq!(cells[4].starts_with("yes"), error.retry_after().is_some(), "{name}: {cells:?}");
    }
}

#[test]
fn it_is_said_when_to_call_again() {
    let secs = Duration::from_secs;
    assert_eq!(busy_after(Duration::ZERO).retry_after(), Some(secs(1)));
    assert_eq!(busy_after(secs(5)).retry_after(), Some(secs(5)));
    assert_eq!(busy_after(secs(3600)).retry_after(), Some(secs(30)));
    let mut endless = busy_after(Duration::ZERO);
    if let LockError::Timeout { is_endless, .. } = &mut endless {
        *is_endless = true;
    }
    assert_eq!(endless.retry_after(), None, "a person has to delete the key");
    let fence = NodeError::new("n", NodeErrorKind::Refused, "FENCE no fencing token is left");
    assert!(fence.to_string().contains("Delete this key"), "{fence}");
    let spoiled = LockError::Unavailable { key: "k".into(), nodes: vec![fence] };
    assert_eq!(spoiled.retry_after(), None, "as well");
    let one_is_down = [NodeErrorKind::Unreachable, NodeErrorKind::NoPermission];
    assert_eq!(unavailable("k", &one_is_down).retry_after(), Some(secs(1)));
    assert_eq!(unavailable("k", &one_is_down[1..]).retry_after(), None);
    assert_eq!(lost(LostReason::Unreachable).retry_after(), None);
}

/// Redis of its own, of a script, and an older one.
#[test]
fn a_command_that_was_taken_away_is_told_as_such() {
    for said in [
        "ERR unknown command 'EVALSHA'",
        "ERR unknown command `EVAL`",
        "ERR Unknown Redis command called from script script: 5b86, on @user_script:10.",
    ] {
        let refused = NodeError::new("n", NodeErrorKind::Refused, said).to_string();
        assert!(refused.contains("rename-command") && refused.contains("docs/security.md"));
    }
}

/// A lock that is lost while its body runs is no mistake of the program.
#[test]
fn only_a_lock_that_was_released_before_is_a_mistake_of_the_caller() {
    for reason in [LostReason::Expired, LostReason::Unreachable, LostReason::OuterReleased] {
        assert!(!lost(reason).is_caller_error(), "{reason}");
        assert_eq!(lost(reason).public_message(), "lock `k` was lost, and the work was stopped");
    }
    assert!(lost(LostReason::Released).is_caller_error());
    assert_eq!(lost(LostReason::Released).public_message(), "lock `k` cannot be used like this");
}

#[test]
fn what_a_person_has_to_change_is_not_tried_again_soon() {
    for kind in [
        NodeErrorKind::Tls,
        NodeErrorKind::Authentication,
        NodeErrorKind::NoPermission,
        NodeErrorKind::WrongType,
        NodeErrorKind::Duplicate,
        NodeErrorKind::OtherClock,
        NodeErrorKind::Sentinel,
    ] {
        assert_eq!(unavailable("k", &[kind]).retry_after(), None, "{kind:?}");
    }
    for kind in [NodeErrorKind::Loading, NodeErrorKind::Busy, NodeErrorKind::NoMaster] {
        assert_eq!(
            unavailable("k", &[kind]).retry_after(),
            Some(Duration::from_secs(1)),
            "{kind:?}"
        );
    }
}

#[test]
fn users_are_told_of_no_lock_where_a_client_starts() {
    let at_startup = unavailable("", &[NodeErrorKind::NoReply]);
    assert_eq!(at_startup.public_message(), "locks are unavailable");
}

#[test]
fn a_failure_without_a_key_has_none() {
    assert_eq!(unavailable("", &[NodeErrorKind::NoReply]).key(), None);
    assert_eq!(unavailable("k", &[NodeErrorKind::NoReply]).key(), Some("k"));
}

#[test]
fn the_source_of_an_outage_is_what_the_first_node_said() {
    let error = unavailable("k", &[NodeErrorKind::NoReply, NodeErrorKind::Busy]);
    let source = error.source().and_then(|source| source.downcast_ref::<NodeError>());
    assert_eq!(source.map(NodeError::kind), Some(NodeErrorKind::NoReply));
    assert!(busy_after(Duration::ZERO).source().is_none());
}
