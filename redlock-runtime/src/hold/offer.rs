//! A lock that was granted to a caller, until the caller takes it.
//!
//! A caller learns of its grant when its future is polled, which may be late, or never: the arm of
//! a `select!` that takes long, a stalled stream, a blocked runtime. Until then the lease is not
//! renewed, and after a while other callers may have the lock.

use std::sync::atomic::{AtomicU8, Ordering};

use super::action::Action;
use crate::backend::CLAIM_WINDOW;
use crate::clock::Moment;

const OPEN: u8 = 0;
/// Open, and the scheduler skipped a renewal because the caller had not taken the lock.
const PUT_OFF: u8 = 1;
const TAKEN: u8 = 2;
const WITHDRAWN: u8 = 3;

#[derive(Debug)]
pub(crate) struct Offer {
    state: AtomicU8,
    /// The offer ends after the claim window, as it does for a lock that is handed to another
    /// process.
    ends: Moment,
}

impl Offer {
    /// `offered`: when the lock was granted to a caller that has to be polled to learn of it;
    /// `None`: the caller is being polled. `stop`: when the lease can be relied on no longer.
    pub(crate) fn new(offered: Option<Moment>, stop: Moment) -> Self {
        let state = AtomicU8::new(if offered.is_some() { OPEN } else { TAKEN });
        let ends = offered.map_or(Moment::NEVER, |offered| offered.plus(CLAIM_WINDOW).min(stop));
        Self { state, ends }
    }

    pub(crate) fn is_taken(&self) -> bool {
        self.state.load(Ordering::Acquire) == TAKEN
    }

    pub(crate) fn is_open(&self) -> bool {
        self.state.load(Ordering::Acquire) < TAKEN
    }

    /// When to check the offer first, for a lease whose renewal is due at `due`.
    pub(crate) fn first_look(&self, due: Moment) -> Moment {
        due.min(self.ends)
    }

    /// What to do about a lock that its caller has not taken: to sleep, or to withdraw it, as it
    /// was taken back just now. `None`: the caller has taken it, and it is renewed like any other.
    pub(crate) fn look(&self, now: Moment, due: Moment) -> Option<Action> {
        if !self.is_open() {
            None
        } else if now >= self.ends {
            self.withdraw().then_some(Action::Withdraw)
        } else if now >= due {
            self.close(PUT_OFF).then_some(Action::Sleep(self.ends))
        } else {
            Some(Action::Sleep(due.min(self.ends)))
        }
    }

    /// The caller takes the lock. `None`: it was taken back. `Some(true)`: a renewal was put off
    /// until now.
    pub(crate) fn take(&self) -> Option<bool> {
        let take = |state| (state != WITHDRAWN).then_some(TAKEN);
        let before = self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, take);
        before.ok().map(|before| before == PUT_OFF)
    }

    /// Takes the lock back. `false`: the caller has taken it, or it was taken back before.
    pub(crate) fn withdraw(&self) -> bool {
        self.close(WITHDRAWN)
    }

    /// The caller has taken the lock, and lets go of it unused.
    pub(crate) fn give_back(&self) {
        self.state.store(WITHDRAWN, Ordering::Release);
    }

    /// `false`: the caller has taken the lock.
    fn close(&self, next: u8) -> bool {
        let close = |state| (state < TAKEN).then_some(next);
        self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, close).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::ZERO.plus(Duration::from_millis(millis))
    }

    /// Granted at 100 s, with a lease that lasts for longer.
    fn offer() -> Offer {
        Offer::new(Some(at(100_000)), at(130_000))
    }

    #[test]
    fn an_offer_stands_for_the_claim_window_and_no_longer_than_the_lease() {
        let (due, ends) = (at(120_000), at(100_000).plus(CLAIM_WINDOW));
        assert_eq!(offer().first_look(due), ends);
        assert_eq!(offer().look(at(100_500), due), Some(Action::Sleep(ends)));
        assert_eq!(offer().look(ends, due), Some(Action::Withdraw));
        let short = Offer::new(Some(at(100_000)), at(100_200));
        assert_eq!(short.look(at(100_200), due), Some(Action::Withdraw));
    }

    #[test]
    fn an_offer_is_taken_or_withdrawn_and_never_both() {
        let (due, late) = (at(120_000), at(102_000));
        let taken = offer();
        assert_eq!(taken.take(), Some(false));
        assert_eq!(taken.look(late, due), None);

        let withdrawn = offer();
        assert_eq!(withdrawn.look(late, due), Some(Action::Withdraw));
        assert_eq!(withdrawn.take(), None);
        assert_eq!(withdrawn.look(late, due), None);
    }

    #[test]
    fn a_renewal_that_was_put_off_is_known_to_who_takes_the_lock() {
        let (offer, due) = (offer(), at(100_005));
        assert_eq!(offer.look(at(100_004), due), Some(Action::Sleep(due)));
        assert_eq!(offer.look(due, due), Some(Action::Sleep(at(101_000))));
        assert_eq!(offer.take(), Some(true));
    }

    #[test]
    fn what_was_granted_to_a_caller_that_is_polled_is_no_offer() {
        let granted = Offer::new(None, at(130_000));
        assert!(!granted.is_open());
        assert_eq!(granted.look(at(129_999), at(120_000)), None);
        assert_eq!(granted.take(), Some(false));
    }
}
