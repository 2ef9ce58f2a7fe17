//! A client that does not claim the permit that it was handed is frozen, or its host is gone: its
//! other places leave the queue. On a model of a server that runs the shipped scripts.

use std::time::Duration;

use super::fake::{MINUTE, SECOND};
use super::step::{PRESENT, Step, claim, permit_of};
use crate::backend::simulated;
use crate::backend::{Claim, Enqueued, Found, Look};
use crate::kind::Kind;
use crate::owner::ClientId;

/// A process that hears, and does nothing.
const FROZEN: &str = "redlock:frozen";
const QUEUE: &[u8] = b"{lock:k}:queue";

struct Clients {
    step: Step,
    frozen: ClientId,
    alive: ClientId,
}

impl Clients {
    fn new() -> Self {
        let mut step = Step::new();
        step.server.set_listeners(FROZEN.as_bytes(), 1);
        Self { step, frozen: ClientId::new("model"), alive: ClientId::new("model") }
    }

    /// Callers of the frozen client, in the queue.
    fn freeze<const N: usize>(&mut self, permits: u32) -> [Claim; N] {
        let waiting = [(); N].map(|()| permit_of(&self.frozen, permits));
        for claim in &waiting {
            self.step.enqueues(claim, FROZEN);
        }
        waiting
    }

    /// A caller of the other client, in the queue.
    fn enqueue(&mut self, permits: u32) -> Claim {
        let claim = permit_of(&self.alive, permits);
        self.step.enqueues(&claim, PRESENT);
        claim
    }

    fn holder(&mut self, permits: u32) -> Claim {
        let claim = permit_of(&self.alive, permits);
        assert!(self.step.enters(&claim));
        claim
    }

    fn is_queued(&mut self, claim: &Claim) -> bool {
        let answer = self.step.ask(&simulated::look(claim, 1, Look::by_clock(3)));
        !matches!(answer, Enqueued::Unknown)
    }

    fn renew(&mut self, claim: &Claim) {
        let renewed = self.step.ask(&simulated::renew(std::slice::from_ref(claim)));
        assert_eq!(renewed, [Found::Ours]);
    }

    fn nudge(&mut self) {
        self.step.ask(&simulated::nudge(&permit_of(&self.alive, 1)));
    }
}

/// Each of its callers would be handed a permit in vain, for a second.
#[test]
fn a_client_that_does_not_claim_a_permit_loses_its_other_places() {
    for permits in [1, 2, 3] {
        let mut clients = Clients::new();
        let held: Vec<_> = (0..permits).map(|_| clients.holder(permits)).collect();
        clients.freeze::<8>(permits);
        let last = clients.enqueue(permits);
        let step = &mut clients.step;
        for claim in &held {
            step.leaves(claim);
        }
        step.pass(SECOND / 2);
        assert!(!step.looks(&last), "they may claim what they were handed");
        step.server.take_published();
        step.pass(SECOND);
        assert!(step.looks(&last));
        let told = step.server.take_published().into_iter();
        let looks = told.filter(|(to, text)| to == FROZEN.as_bytes() && text.starts_with(b"look "));
        assert_eq!(looks.count(), 8 - permits as usize, "they are to enqueue anew");
        assert!(step.server.keyspace().get(QUEUE).is_none());
    }
}

#[test]
fn a_client_keeps_its_places_when_a_lease_ends_that_was_claimed() {
    let mut clients = Clients::new();
    let (first, other) = (clients.holder(2), clients.holder(2));
    let [second, third] = clients.freeze(2);
    let last = clients.enqueue(2);
    clients.step.leaves(&first);
    clients.renew(&Claim { expire: 2 * SECOND, ..second });
    clients.renew(&other);
    clients.step.pass(2 * SECOND + SECOND / 10);
    assert!(!clients.step.looks(&last), "another one came before");
    assert!(clients.is_queued(&third));
}

/// It has just shown that it lives.
#[test]
fn a_client_that_looks_by_itself_keeps_its_places() {
    let mut clients = Clients::new();
    let (first, other) = (clients.holder(2), clients.holder(2));
    let [_unclaimed, second, third] = clients.freeze(2);
    let behind = clients.enqueue(2);
    clients.step.leaves(&first);
    clients.renew(&other);
    clients.step.pass(SECOND + SECOND / 10);
    assert!(clients.step.looks(&second), "there is room for it");
    assert!(clients.is_queued(&third) && clients.is_queued(&behind));
}

/// Also when another of its callers finds the lock free, when one lets go of a permit, and when the
/// client looks what became of one.
#[test]
fn a_client_that_sends_any_command_keeps_its_places() {
    type Shows = fn(&mut Clients, &Claim);
    let shows: [(Duration, Shows); 5] = [
        (SECOND, |clients, _| assert!(!clients.step.enters(&permit_of(&clients.frozen, 1)))),
        (SECOND, |clients, _| clients.step.enqueues(&permit_of(&clients.frozen, 1), FROZEN)),
        (SECOND, |clients, _| {
            let writer = Claim { kind: Kind::Exclusive, ..permit_of(&clients.frozen, 1) };
            clients.step.enqueues(&writer, FROZEN);
        }),
        (SECOND, |clients, held| {
            clients.step.ask(&simulated::nudge(held));
        }),
        (MINUTE, |clients, held| clients.step.leaves(held)),
    ];
    for (place, (expire, show)) in shows.into_iter().enumerate() {
        let mut clients = Clients::new();
        let held = Claim { expire, ..permit_of(&clients.frozen, 2) };
        assert!(clients.step.enters(&held));
        let other = clients.holder(2);
        let [_unclaimed, second, third] = clients.freeze(2);
        clients.step.leaves(&other);
        clients.step.pass(SECOND + SECOND / 10);
        show(&mut clients, &held);
        assert!(clients.is_queued(&third), "{place}");
        assert!(clients.step.looks(&second), "{place}: it was handed a permit");
    }
}

/// Also while a writer has the lock.
#[test]
fn a_client_that_lives_again_keeps_the_places_that_it_takes_then() {
    let mut clients = Clients::new();
    let first = clients.holder(1);
    let [unclaimed] = clients.freeze(1);
    let writer = claim(Kind::Exclusive, MINUTE);
    clients.step.enqueues(&writer, PRESENT);
    let [second] = clients.freeze(1);
    clients.step.leaves(&first);
    clients.step.pass(SECOND + SECOND / 10);
    clients.nudge();
    assert!(!clients.is_queued(&unclaimed) && clients.is_queued(&second));
    clients.step.leaves(&writer);
    assert!(clients.step.looks(&second), "it was handed the lock");
}

/// What a group forgets when another one begins.
#[test]
fn a_client_behind_one_that_is_not_told_loses_its_places_too() {
    let mut clients = Clients::new();
    let first = clients.holder(1);
    clients.step.enqueues(&permit_of(&ClientId::new("untold"), 1), "-");
    let waiting = clients.freeze::<6>(1);
    let last = clients.enqueue(1);
    clients.step.leaves(&first);
    clients.step.pass(SECOND + SECOND / 50);
    clients.nudge();
    clients.step.pass(SECOND / 2);
    assert!(clients.step.looks(&last), "it was handed the permit");
    assert!(!waiting.iter().any(|claim| clients.is_queued(claim)));
}

#[test]
fn who_has_less_than_the_claim_window_or_is_not_told_loses_nothing() {
    let short = Duration::from_millis(200);
    for (expire, channel) in [(short, FROZEN), (MINUTE, "-")] {
        let mut clients = Clients::new();
        let first = clients.holder(1);
        let caller = |clients: &Clients| Claim { expire, ..permit_of(&clients.frozen, 1) };
        let [unclaimed, second] = [caller(&clients), caller(&clients)];
        clients.step.enqueues(&unclaimed, channel);
        clients.step.enqueues(&second, channel);
        clients.step.leaves(&first);
        let last = clients.enqueue(1);
        clients.step.pass(SECOND + SECOND / 10);
        clients.step.server.take_published();
        assert!(clients.step.looks(&last));
        assert!(clients.is_queued(&second), "{expire:?} {channel}");
    }
}

/// Nobody listens there.
#[test]
fn those_who_cannot_be_told_are_not_told_that_their_places_are_gone() {
    let mut clients = Clients::new();
    let first = clients.holder(1);
    clients.freeze::<1>(1);
    let untold = permit_of(&clients.frozen, 1);
    clients.step.enqueues(&untold, "-");
    let last = clients.enqueue(1);
    clients.step.leaves(&first);
    clients.step.pass(SECOND + SECOND / 10);
    clients.step.server.take_published();
    assert!(clients.step.looks(&last));
    let told = clients.step.server.take_published();
    assert!(!told.iter().any(|(channel, _)| channel == b"-"), "{told:?}");
    assert!(!clients.is_queued(&untold));
}

/// The lowest bit of an end says whether its owner was invited, whatever the clock says.
#[test]
fn a_client_keeps_its_places_when_the_clock_is_odd() {
    for way in ["alone", "beside another", "renewed"] {
        let mut clients = Clients::new();
        let permits = if way == "alone" { 1 } else { 2 };
        if way != "alone" {
            clients.holder(2);
        }
        if way != "renewed" {
            clients.step.pass(Duration::from_micros(1));
        }
        let held = Claim { expire: SECOND, ..permit_of(&clients.frozen, permits) };
        assert!(clients.step.enters(&held));
        if way == "renewed" {
            clients.step.pass(Duration::from_micros(1));
            clients.renew(&held);
        }
        let [place] = clients.freeze(permits);
        let last = clients.enqueue(permits);
        clients.step.pass(2 * SECOND);
        clients.step.looks(&last);
        assert!(clients.is_queued(&place), "{way}: it claimed what it had");
    }
}
