//! Entries that stand twice in the queue, as the client library of a pool may send a command again
//! by itself. On a model of a server that runs the shipped scripts.

use std::num::NonZeroU32;

use super::fake::{MINUTE, SECOND};
use super::step::{PRESENT, Step, claim};
use crate::backend::simulated;
use crate::backend::{Claim, Found, Release};
use crate::kind::Kind;

/// The process gets no signals, as with a pool of a cluster.
const UNSIGNALLED: &str = "-";
const PERMITS: Kind = Kind::Permits(NonZeroU32::new(2).unwrap());
const KINDS: [Kind; 3] = [Kind::Exclusive, Kind::Read, PERMITS];

impl Step {
    fn enqueues_twice(&mut self, claim: &Claim) {
        for _ in 0..2 {
            self.enqueues(claim, UNSIGNALLED);
        }
    }

    fn leaves_the_queue(&mut self, claim: &Claim) {
        self.ask(&simulated::release(Release::leaving(claim), true));
    }

    fn has_queue(&self) -> bool {
        self.server.keyspace().get(b"{lock:k}:queue").is_some()
    }

    /// Does an owner still have its lease?
    fn renews(&mut self, claim: &Claim) -> bool {
        self.ask(&simulated::renew(std::slice::from_ref(claim))) == [Found::Ours]
    }
}

#[test]
fn an_owner_that_finds_the_lock_free_takes_both_of_its_entries_out() {
    for kind in KINDS {
        let (mut step, owner) = (Step::new(), claim(kind, MINUTE));
        assert!(step.enters(&claim(Kind::Exclusive, SECOND)));
        step.enqueues_twice(&owner);
        step.pass(2 * SECOND);
        assert!(step.looks(&owner) && !step.has_queue(), "{kind:?}");
        step.pass(2 * SECOND);
        assert!(step.renews(&owner), "{kind:?}: its lease was cut");
    }
}

#[test]
fn an_owner_that_leaves_the_queue_leaves_no_second_entry() {
    for kind in KINDS {
        let (mut step, owner) = (Step::new(), claim(kind, MINUTE));
        assert!(step.enters(&claim(Kind::Exclusive, MINUTE)));
        step.enqueues_twice(&owner);
        step.leaves_the_queue(&owner);
        assert!(!step.has_queue(), "{kind:?}");
    }
}

/// The first try of its command arrived late. What is let in has the claim window, not a lease.
#[test]
fn an_entry_takes_nothing_from_the_lease_of_its_owner() {
    for kind in [Kind::Read, PERMITS] {
        let (mut step, owner, other) = (Step::new(), claim(kind, MINUTE), claim(kind, MINUTE));
        let (writer, next) = (claim(Kind::Exclusive, MINUTE), claim(kind, MINUTE));
        assert!(step.enters(&owner) && step.enters(&other));
        step.enqueues(&writer, PRESENT);
        step.enqueues(&owner, UNSIGNALLED);
        step.enqueues(&next, PRESENT);
        step.leaves_the_queue(&writer);
        step.leaves(&other);
        assert_eq!(step.told().len(), 1, "{kind:?}: the one behind it is let in");
        assert!(!step.has_queue(), "{kind:?}");
        step.pass(2 * SECOND);
        assert!(step.renews(&owner), "{kind:?}: its lease was cut");
    }
}
