//! The record of one held lock, shared by its guard, the scheduler and the body's wrapper.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use once_cell::race::OnceBox;

use super::begin::Begin;
use super::confirmed_lease::ConfirmedLease;
use super::further_keys::FurtherKeys;
use super::holding_client::HoldingClient;
use super::ledger::{End, Ledger};
use super::loss_listener::LossListener;
use super::offer::Offer;
use super::schedule::{HeapIndex, Scheduled};
use super::tenure::Tenure;
use super::terms::Terms;
use super::turns::Turns;
use crate::backend::Claim;
use crate::clock::Moment;
use crate::error::LockError;
use crate::fencing::FencingToken;
use crate::mutex::Mutex;
use crate::notify_all::NotifyAll;
use crate::pending::PendingCommand;
use crate::state::LostReason;
use crate::telemetry::{self, LockLabels};
use crate::validity;

mod keys;
mod look;
mod lost;
mod offered;
mod read;
mod renewed;
mod retain;
mod shown;

/// A granted lock, and what has happened to it since.
pub(crate) struct Hold {
    /// Unique in this process.
    pub(crate) id: u64,
    pub(crate) client: Arc<HoldingClient>,
    pub(crate) terms: Terms,
    pub(crate) claim: Claim,
    /// `None`: it has one key.
    further: Option<Box<FurtherKeys>>,
    /// Filled when a caller asks for them.
    key_names: OnceBox<Vec<String>>,
    /// The end of `min_hold`.
    retained_until: Option<Moment>,
    pub(crate) fencing_token: FencingToken,
    /// When the hold began: when the acquire command was sent, or when the lock was passed on in
    /// this process.
    begun: Moment,
    /// The body is not polled from here on; zero once the lease is over. The hot path reads only
    /// this, without taking the mutex.
    stop: AtomicU64,
    ledger: Mutex<Ledger>,
    /// Wakes the futures that wait for the end of the hold.
    over: NotifyAll,
    /// Open until the caller learns of the lock.
    offer: Offer,
    /// An offer counts as pending: a shutdown waits until it is taken, or withdrawn and released.
    offer_pending: Mutex<Option<PendingCommand>>,
    /// The waiters of this process. They know their holder, who must not keep them.
    listener: Weak<dyn LossListener>,
    /// Calls that re-enter the hold take turns.
    pub(crate) turns: Turns,
    /// Where it stands in the schedule.
    heap_index: HeapIndex,
}

impl Scheduled for Hold {
    fn heap_index(&self) -> &HeapIndex {
        &self.heap_index
    }
}

impl Hold {
    /// A hold of the key of `tenure`. `confirmed`: its lease, or, of several keys, the one to stop
    /// first. `listener`: the waiters of this process.
    pub(crate) fn new(
        client: &Arc<HoldingClient>,
        terms: Terms,
        tenure: &Tenure,
        confirmed: ConfirmedLease,
        begin: Begin,
        listener: Weak<dyn LossListener>,
    ) -> Self {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        let (Begin { at, is_taken }, claim) = (begin, tenure.claim.clone());
        let Terms { template, expire, min_hold, max_renew, .. } = terms;
        let now = || client.clock.now();
        let confirmed = ConfirmedLease { lease: confirmed.lease.min(expire), ..confirmed };
        telemetry::held(LockLabels { template, kind: claim.kind });
        let longest = validity::longest_hold(at, expire, max_renew);
        let stop = validity::stop(confirmed.sent, confirmed.lease).min(longest);
        Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            key_names: OnceBox::new(),
            retained_until: (!min_hold.is_zero()).then(|| now().plus(min_hold)),
            offer: Offer::new((!is_taken).then(now), stop),
            offer_pending: Mutex::new((!is_taken).then(|| client.pending.begin())),
            client: Arc::clone(client),
            terms,
            claim,
            further: None,
            fencing_token: tenure.fencing_token(),
            begun: at,
            stop: AtomicU64::new(stop.nanos()),
            ledger: Mutex::new(Ledger::new(confirmed)),
            over: NotifyAll::default(),
            listener,
            turns: Turns::default(),
            heap_index: HeapIndex::default(),
        }
    }

    /// From the call to the attempt that succeeded, or until the lock was passed on to it in this
    /// process.
    pub(crate) fn waited(&self) -> Duration {
        self.begun.since(self.terms.started)
    }

    /// Fails in a process that was forked from the one that holds the lock.
    pub(crate) fn check_process(&self) -> Result<(), LockError> {
        self.client.check_process()
    }

    /// Is this a copy, in a process that was forked from the one that holds the lock?
    pub(crate) fn is_forked(&self) -> bool {
        self.check_process().is_err()
    }

    /// May a step of the body run now? Checked before every poll.
    pub(crate) fn check(&self) -> Result<(), LockError> {
        self.check_process()?;
        let now = self.client.clock.now();
        if now < self.stop_at() { Ok(()) } else { self.check_ended(now) }
    }

    /// Is the lease known to be over? Reads no clock.
    pub(crate) fn is_over(&self) -> bool {
        self.stop_at() == Moment::ZERO
    }

    /// Why the lease was lost; `None` while it holds and after a release. It is lost now if its
    /// time is up at `now`.
    pub(crate) fn loss_by(&self, now: Moment) -> Option<LostReason> {
        if self.is_forked() {
            return Some(LostReason::Forked);
        }
        self.lose_if_due(now);
        match self.ledger.lock().ended?.how {
            End::Lost(loss) => Some(loss.reason),
            End::Released | End::Withdrawn => None,
        }
    }

    /// Resolves when the hold has ended. Cancel safe.
    pub(crate) async fn over(&self) {
        if self.is_forked() {
            return;
        }
        self.over.unless(|| self.is_over()).await;
    }

    /// The last confirmed lease.
    pub(crate) fn confirmed(&self) -> ConfirmedLease {
        self.ledger.lock().confirmed
    }

    /// From here on the server may have ended the last confirmed lease by itself.
    pub(crate) fn may_end_at(&self) -> Moment {
        let ConfirmedLease { sent, lease } = self.confirmed();
        validity::deadline(sent, lease).max(self.retained_until.unwrap_or(Moment::ZERO))
    }

    /// When the last lease ends on the server at the latest, even if an unanswered renewal was
    /// carried out.
    pub(crate) fn server_end(&self) -> Moment {
        let (expire, ledger) = (self.claim.expire, self.ledger.lock());
        let own = validity::server_end(ledger.confirmed.sent.max(ledger.renewal_sent), expire);
        own.max(self.further.as_ref().map_or(Moment::ZERO, |further| further.server_end))
    }

    /// Ends the hold at `now` because its holder releases. `false`: the hold had ended before.
    pub(crate) fn end(&self, now: Moment) -> bool {
        self.lose_if_due(now);
        self.finish(now, End::Released)
    }

    /// When the body is stopped if no renewal is confirmed until then.
    pub(crate) fn stop_at(&self) -> Moment {
        Moment::from_nanos(self.stop.load(Ordering::Acquire))
    }

    /// Loses the lease if its time is up at `now`. Returns whether it is over.
    fn lose_if_due(&self, now: Moment) -> bool {
        now >= self.stop_at() && self.stop_unless_renewed(now)
    }

    fn finish(&self, now: Moment, how: End) -> bool {
        let mut ledger = self.ledger.lock();
        if ledger.ended.is_some() {
            return false;
        }
        ledger.end(now, how);
        self.stop.store(Moment::ZERO.nanos(), Ordering::Release);
        drop(ledger);
        // Outside of the mutex: wakers may run code that uses this hold.
        self.over.wake_all();
        telemetry::ended(self.labels(), self.held_for());
        true
    }
}
