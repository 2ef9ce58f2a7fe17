//! An owner that looks for its entry is found, wherever it believes that it stands. On a model of a
//! server that runs the shipped scripts.

use std::num::NonZeroU32;
use std::time::Duration;

use redis_model::{Script, Server};

use crate::backend::simulated::{self, SimulatedReply};
use crate::backend::{Claim, Enqueued, Found, Look, Release};
use crate::key::LockKey;
use crate::kind::Kind;
use crate::owner::Owner;

const NOW: u64 = 1_795_000_000_000_000;
/// More than the server reads at a time.
const WAITING: u32 = 300;

/// A lock that somebody holds, and those who wait for it, in their order.
fn queue(kind: Kind) -> (Server, Vec<Claim>) {
    let mut server = Server::new(simulated::scripts().map(Script::new));
    server.set_clock(NOW, NOW / 1000);
    let key = LockKey::new("lock:", "k").unwrap();
    let claim = || Claim {
        key: key.clone(),
        owner: Owner::of_nobody("test"),
        expire: Duration::from_secs(60),
        kind,
    };
    simulated::acquire(&claim()).ask(&mut server, false);
    let waiting: Vec<_> = (0..WAITING).map(|_| claim()).collect();
    for claim in &waiting {
        simulated::enqueue(claim, 1, None).ask(&mut server, false);
    }
    (server, waiting)
}

/// How many are ahead of an owner that believes in `believed`; `None`: it is not in the queue.
fn ahead(server: &mut Server, claim: &Claim, believed: u32) -> Option<u32> {
    match simulated::look(claim, 1, Look::by_clock(believed)).ask(server, false) {
        SimulatedReply::Answer(Enqueued::Waiting { position, .. }) => Some(position.ahead),
        SimulatedReply::Answer(Enqueued::Unknown) => None,
        _ => panic!("the lock is held"),
    }
}

#[test]
fn an_entry_is_found_whatever_its_owner_believes() {
    for kind in [Kind::Exclusive, Kind::Permits(NonZeroU32::MIN)] {
        let (mut server, waiting) = queue(kind);
        for (place, claim) in (0_u32..).zip(&waiting) {
            for believed in [0, place, place + 1, place + 64, place.saturating_sub(1), u32::MAX] {
                let found = ahead(&mut server, claim, believed);
                assert_eq!(found, Some(place), "{kind:?}, believed to be behind {believed}");
            }
        }
        let gone = Claim { owner: Owner::of_nobody("test"), ..waiting[0].clone() };
        for believed in [0, 70, u32::MAX] {
            assert_eq!(ahead(&mut server, &gone, believed), None);
        }
    }
}

/// Those whose wait is over stand at the head when they leave, wherever they stood when they were
/// seen last.
#[test]
fn callers_that_leave_in_their_order_read_few_entries_each() {
    for kind in [Kind::Exclusive, Kind::Permits(NonZeroU32::MIN)] {
        let (mut server, waiting) = queue(kind);
        let mut most = 0;
        for (place, claim) in (0_u32..).zip(&waiting) {
            server.take_listed();
            let leaves = Release { may_be_queued: true, ahead: Some(place), ..Release::of(claim) };
            simulated::release(leaves, true).ask(&mut server, false);
            most = most.max(server.take_listed());
        }
        assert!(most < 150, "{kind:?}: one has read {most} of {WAITING}");
        assert!(server.keyspace().get(waiting[0].key.queue_key().as_bytes()).is_none());
    }
}

/// A process of which many callers waited was killed: the server asks once whether it is there, and
/// draws no fencing tokens for it, so that it does not stand still for all others.
#[test]
fn many_entries_of_a_dead_process_are_taken_out_with_few_commands() {
    for kind in [Kind::Permits(NonZeroU32::MIN), Kind::Read] {
        let (mut server, _) = queue(Kind::Exclusive);
        let key = LockKey::new("lock:", "other").unwrap();
        let claim = |kind| Claim {
            key: key.clone(),
            owner: Owner::of_nobody("test"),
            expire: Duration::from_secs(60),
            kind,
        };
        let holder = claim(Kind::Exclusive);
        simulated::acquire(&holder).ask(&mut server, false);
        for _ in 0..WAITING {
            simulated::enqueue(&claim(kind), 1, Some("gone")).ask(&mut server, false);
        }
        server.take_carried_out();
        let released = simulated::release(Release::of(&holder), true).ask(&mut server, true);
        assert!(matches!(released, SimulatedReply::Answer((Found::Ours, false))), "{kind:?}");
        let commands = server.take_carried_out();
        // One takes out an entry; one more finds the next, where it is not read with others.
        assert!(commands < 3 * WAITING as usize, "{kind:?}: {commands} for {WAITING} entries");
        assert!(server.keyspace().get(key.queue_key().as_bytes()).is_none());
    }
}
