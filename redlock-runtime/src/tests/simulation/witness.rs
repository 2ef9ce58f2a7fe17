//! Sees everything, and checks at every step what is promised.

use std::collections::HashMap;
use std::sync::Arc;

use super::departed::Departed;
use super::liveness::LocalQueue;
use super::mixture::may_be_together;
use super::network::Network;
use super::plan::{KEYS, Plan, Promise, Tick, millis};
use super::resource::{LostUpdate, Resource};
use crate::backend::Claim;
use crate::fencing::FencingToken;
use crate::hold::Hold;
use crate::kind::Kind;
use crate::owner::Owner;

#[derive(Debug, Default)]
pub(super) struct Witness {
    pub(super) keys: Vec<Key>,
    pub(super) tally: Tally,
    pub(super) departed: Departed,
    /// The first promise that was broken.
    pub(super) violation: Option<String>,
}

/// What there was to see, so that a history in which nothing happens is noticed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) holds: u64,
    pub(super) steps: u64,
    pub(super) renewals: u64,
    pub(super) refused: u64,
    pub(super) lost: u64,
    pub(super) commands: u64,
    /// Locks that came to a waiter from another process, and from its own.
    pub(super) handover_watchdog: u64,
    pub(super) passes: u64,
    /// Holds with a `min_hold`.
    pub(super) retained: u64,
    /// Owners that let go, whose locks were looked for long after that.
    pub(super) departures: u64,
    /// Holds that began beside others, those of permits among them.
    pub(super) beside_others: u64,
    pub(super) permits: u64,
    /// Calls that had all keys of a history, and calls that re-entered a hold.
    pub(super) several: u64,
    pub(super) re_entered: u64,
    /// Writers that became readers.
    pub(super) downgraded: u64,
}

impl Tally {
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            holds: self.holds + other.holds,
            steps: self.steps + other.steps,
            renewals: self.renewals + other.renewals,
            refused: self.refused + other.refused,
            lost: self.lost + other.lost,
            commands: self.commands + other.commands,
            handover_watchdog: self.handover_watchdog + other.handover_watchdog,
            passes: self.passes + other.passes,
            retained: self.retained + other.retained,
            departures: self.departures + other.departures,
            beside_others: self.beside_others + other.beside_others,
            permits: self.permits + other.permits,
            several: self.several + other.several,
            re_entered: self.re_entered + other.re_entered,
            downgraded: self.downgraded + other.downgraded,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Key {
    /// Everybody who was told that the lock is theirs, and may still believe it.
    holders: Vec<Arc<Hold>>,
    /// The highest fencing token, and those before it, with the times at which they were told.
    granted: Vec<(Tick, FencingToken, Kind)>,
    pub(super) queue: LocalQueue,
    /// Who was told last.
    owner: Option<Owner>,
    /// When the tenure of each owner began.
    grants: HashMap<Owner, Tick>,
    resource: Resource,
    /// Nobody else may have the lock before that.
    retained_until: Tick,
}

impl Key {
    /// When the tenure of an owner began, of which a hold begins at `now`.
    fn tenure_since(&mut self, owner: &Owner, now: Tick) -> Tick {
        *self.grants.entry(owner.clone()).or_insert(now)
    }
}

/// What a hold has of one key.
fn claim_of(key: usize, hold: &Hold) -> &Claim {
    let claim = hold.claims().find(|claim| claim.key.name() == KEYS[key]);
    claim.unwrap_or_else(|| unreachable!("it holds {}", KEYS[key]))
}

impl Witness {
    pub(super) fn new(plan: &Plan) -> Self {
        let keys = (0..plan.keys).map(|_| Key::default()).collect();
        Self { keys, ..Self::default() }
    }

    /// Somebody was told that the lock is theirs; the attempt began at `since`.
    pub(super) fn enter(
        &mut self,
        plan: &Plan,
        key: usize,
        hold: &Arc<Hold>,
        since: Tick,
        now: Tick,
    ) {
        self.tally.holds += 1;
        // Whoever was held up may hear of it when it is over, and takes no step.
        if hold.remaining().is_zero() {
            return;
        }
        self.check_not_retained(plan, key, hold, now);
        let fencing_token = hold.fencing_token;
        // Outside of the promise a grant may overtake another on its way back; and a tenure may go
        // on in its process for a while after its key was deleted, with the tokens that it has.
        let is_strict = plan.promise != Promise::Fencing;
        let owner = claim_of(key, hold).owner.clone();
        let since = self.keys[key].tenure_since(&owner, since);
        // Of those that may hold the lock beside each other, either may be told first.
        let kind = hold.claim.kind;
        let is_after = |at: Tick, other: Kind| {
            at < since || is_strict && !(kind.is_shared() && other.is_shared())
        };
        let earlier = self.keys[key].granted.iter().filter(|(at, _, other)| is_after(*at, *other));
        let highest = earlier.map(|(_, granted, _)| *granted).max();
        if highest >= Some(fencing_token) {
            self.report(now, &format!("fencing token {fencing_token} is not above {highest:?}"));
        }
        let is_passed = self.keys[key].owner.as_ref() == Some(&owner);
        self.tally.passes += u64::from(is_passed);
        self.keys[key].owner = Some(owner);
        self.keys[key].granted.push((now, fencing_token, kind));
        self.keys[key].holders.push(Arc::clone(hold));
        self.keys[key].queue.enter(hold);
        self.check_alone(plan, key, hold, now);
        let is_beside = self.keys[key].holders.len() > 1;
        self.tally.beside_others += u64::from(is_beside);
        self.tally.permits += u64::from(is_beside && matches!(kind, Kind::Permits(_)));
    }

    /// No grant within the `min_hold` of an earlier one, by a clock that is one percent fast.
    fn check_not_retained(&mut self, plan: &Plan, key: usize, hold: &Hold, now: Tick) {
        let until = self.keys[key].retained_until;
        if now < until && plan.promise != Promise::Fencing {
            self.report(now, &format!("a grant within a min_hold that is over at {until} ms"));
        }
        if let (Some(_), Some(min_hold)) = (hold.retained_until(), plan.min_hold) {
            // The server had granted the lock before its holder was told.
            let granted = now - millis(hold.held_for()).min(now);
            self.keys[key].retained_until = granted + millis(min_hold) * 99 / 100 - 2;
            self.tally.retained += 1;
        }
    }

    /// A holder takes a step.
    pub(super) fn step(
        &mut self,
        plan: &Plan,
        network: &Network,
        key: usize,
        hold: &Arc<Hold>,
        now: Tick,
    ) {
        self.tally.steps += 1;
        if hold.remaining().is_zero() {
            return self.report(now, "a step after the end of the lease");
        }
        self.check_alone(plan, key, hold, now);
        if plan.promise == Promise::Position {
            self.stands(plan, network, (key, hold), now);
        }
    }

    /// Nobody else believes to hold the lock.
    fn check_alone(&mut self, plan: &Plan, key: usize, hold: &Arc<Hold>, now: Tick) {
        let holders = &mut self.keys[key].holders;
        holders.retain(|other| !other.remaining().is_zero());
        let others = holders.iter().filter(|other| other.id != hold.id);
        let kinds: Vec<_> = others.chain([hold]).map(|held| held.claim.kind).collect();
        if !may_be_together(&kinds) && plan.promise != Promise::Fencing {
            self.report(now, "two holders at once");
        }
    }

    /// The lock stands on a quorum, and will for as long as its holder relies on it: a step that
    /// begins at the last moment may take a twentieth of the lease.
    fn stands(&mut self, plan: &Plan, network: &Network, (key, hold): (usize, &Hold), now: Tick) {
        let relies = hold.remaining() + hold.confirmed().lease / 20;
        let until = now * 1000 + u64::try_from(relies.as_micros()).unwrap_or(u64::MAX);
        let claim = claim_of(key, hold);
        let leases =
            network.nodes.iter().filter_map(|node| node.held_until(&claim.key, &claim.owner));
        let position = leases.filter(|ends| *ends >= until).count();
        if position < plan.quorum() {
            let of = network.nodes.len();
            self.report(now, &format!("a step on a lock that stands on {position} of {of} nodes"));
        }
    }

    /// Claims the resource; `None`: refused.
    pub(super) fn claim(&mut self, plan: &Plan, key: usize, hold: &Hold, now: Tick) -> Option<u64> {
        self.settle(key, now);
        let read = self.keys[key].resource.claim(hold.fencing_token);
        if read.is_none() && plan.promise != Promise::Fencing {
            self.report(now, "a holder was fenced out");
        }
        read
    }

    pub(super) fn write(&mut self, key: usize, hold: &Hold, lands: Tick, base: u64) {
        self.keys[key].resource.write(lands, hold.fencing_token, base);
    }

    pub(super) fn settle(&mut self, key: usize, now: Tick) {
        if self.keys[key].resource.settle(now) == Err(LostUpdate) {
            self.report(now, "the fenced resource lost an update");
        }
    }

    pub(super) fn report(&mut self, now: Tick, what: &str) {
        self.violation.get_or_insert_with(|| format!("at {now} ms: {what}"));
    }
}
