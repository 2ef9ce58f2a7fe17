//! Servers that come back empty, and tell of themselves what is wrong or cannot be understood.

use redlock::{LockError, NodeErrorKind};

use crate::masters::{attempt, hold_without, on};
use crate::support::proxy::{Then, command};
use crate::support::{Masters, Proxy, capture, eventually, secs, unique_prefix};

async fn masters() -> Masters {
    Masters::start_each(3, |index, server| if index == 1 { server.with_clock() } else { server })
        .await
}

/// The second server forgets the lock while its clock is wrong: ahead, so that its uptime is
/// negative afterwards, or behind, so that it looks old.
#[tokio::test]
async fn a_wrong_clock_at_boot_does_not_hide_a_restart() {
    for off in [20, 7_200, -20, -7_200] {
        let masters = masters().await;
        let prefix = unique_prefix();
        let events = capture();
        let resident = on(masters.urls(), &prefix).build().await.unwrap();
        resident.lock("other").expire(secs(50)).run(async {}).await.unwrap();
        let (held, _away) = hold_without(1, &masters, &prefix).await;
        masters[1].restart_empty_with_clock_off(off).await;
        let stranger = on(masters.urls(), &prefix).build().await.unwrap();
        for client in [&resident, &stranger] {
            let second = attempt(client).await;
            held.check().unwrap();
            assert!(second.is_err(), "a clock off by {off} s made two holders");
        }
        let told = events.warnings_about(&masters[1].addr().to_string());
        let told: Vec<_> = told.iter().map(|event| event.message.as_str()).collect();
        assert!(told.iter().any(|message| message.contains("no vote for now")), "{told:?}");
    }
}

/// What INFO has to say is needed; without it the guard has nothing to go by.
#[tokio::test]
async fn a_server_that_does_not_tell_its_run_id_has_no_vote() {
    for (answer, kind) in [
        ("$22\r\nuptime_in_seconds:9999\r\n", NodeErrorKind::Protocol),
        ("-NOPERM no info\r\n", NodeErrorKind::NoPermission),
    ] {
        let masters = masters().await;
        let prefix = unique_prefix();
        let events = capture();
        let (held, _away) = hold_without(1, &masters, &prefix).await;
        masters[1].restart_empty().await;
        let shy = Proxy::start(&masters[1]);
        shy.always(command(&["INFO"]), Then::Answer(answer.as_bytes().to_vec()));
        let through = [masters[0].url(), shy.url(), masters[2].url()];
        let stranger = on(through, &prefix).build().await.unwrap();
        assert!(attempt(&stranger).await.is_err(), "two holders at once");
        held.check().unwrap();
        let told = events.warnings_about(&shy.addr().to_string());
        assert!(told.iter().any(|event| event.message.contains("who it is")), "{told:?}");
        // What it was granted there is given back in the background.
        let (third, key) = (masters[2].raw(), format!("{prefix}k"));
        eventually(secs(20), || async { third.get(&key).await.is_none() }).await;

        masters[0].kill9();
        let error = attempt(&stranger).await.unwrap_err();
        let LockError::Unavailable { nodes, .. } = &error else { panic!("{error}") };
        assert!(nodes.iter().any(|node| node.kind() == kind), "{error}");
    }
}

/// Nothing is known of the group before: there is no lease to forget.
#[tokio::test]
async fn a_new_deployment_on_servers_with_odd_clocks_works_at_once() {
    let masters = masters().await;
    masters[1].restart_empty_with_clock_off(7_200).await;
    let redlock = on(masters.urls(), &unique_prefix()).build().await.unwrap();
    masters[2].kill9();
    drop(attempt(&redlock).await.unwrap());
}

#[tokio::test]
async fn one_server_under_two_urls_is_refused_with_both() {
    let masters = masters().await;
    let other_way = Proxy::start(&masters[0]);
    let twice = [masters[0].url(), masters[1].url(), other_way.url()];
    let error = on(twice.clone(), &unique_prefix()).build().await.unwrap_err();
    assert!(matches!(error, LockError::Config { .. }), "{error}");
    for url in [&twice[0], &twice[2]] {
        assert!(error.to_string().contains(url.as_str()), "{error}");
    }
    // A client that asks nobody at first gives it one vote.
    let redlock = on(twice, &unique_prefix()).lazy().build().await.unwrap();
    masters[1].kill9();
    let error = attempt(&redlock).await.unwrap_err();
    assert!(error.to_string().contains(&other_way.url()), "{error}");
    // The vote that it got may be taken back a moment later.
    eventually(secs(20), || async { masters[0].raw().keys("*k").await.is_empty() }).await;
}
