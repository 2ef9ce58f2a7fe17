//! A tenure: the time for which one owner value has a lock. Several callers of this process may
//! hold the lock during it, one after another, without a command to Redis each time.

use std::time::Duration;

use super::confirmed_lease::ConfirmedLease;
use crate::backend::{CLAIM_WINDOW, Claim, FencingTokens, MAX_RESERVE, TokensUsed};
use crate::clock::Moment;
use crate::fencing::FencingToken;
use crate::validity;

/// How often, and for how long, a lock is passed on in this process before other processes have
/// their turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Budget {
    passes: u32,
    time: Duration,
}

/// The budget while another process waits, or may wait.
static CONTESTED: Budget = Budget { passes: 256, time: Duration::from_millis(2) };
/// The budget where the server found no other process waiting.
static ALONE: Budget = Budget { passes: MAX_RESERVE, time: Duration::from_millis(10) };

/// How many fencing tokens a single waiter reserves, as more callers may come before its turn: so
/// few that unused ones need not be given back.
pub(crate) const SMALL_RESERVE: u32 = 16;

/// What an owner may leave on the server that its release alone does not remove.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Leftovers {
    /// A command whose connection broke may acquire the lock again, after the release.
    pub(crate) was_cut: bool,
    /// The server has forgotten that it handed the lock over, and may still have the owner in its
    /// queue.
    pub(crate) may_be_queued: bool,
    /// The owner stood in the queue before it had the lock.
    pub(crate) was_queued: bool,
}

/// The time from the grant of an owner value to its release.
#[derive(Debug)]
pub(crate) struct Tenure {
    pub(crate) claim: Claim,
    pub(crate) confirmed: ConfirmedLease,
    /// When the lease ends on the server at the latest, even if a command without an answer was
    /// carried out.
    server_end: Moment,
    /// An answer has just confirmed the lock. Otherwise a signal did, to a waiter that may be slow.
    is_answered: bool,
    /// The lock has to be claimed before a caller holds it: the signal may have come too late.
    is_doubtful: bool,
    leftovers: Leftovers,
    used: FencingToken,
    reserved: FencingToken,
    budget: &'static Budget,
    /// How many callers have their turn with this tenure, however long that takes: the callers that
    /// waited when it was handed over. So each caller has its share, not each process.
    entitled_callers: u32,
    passes: u32,
    since: Moment,
}

impl Tenure {
    /// Acquired; other processes may wait.
    pub(crate) fn new(
        claim: Claim,
        confirmed: ConfirmedLease,
        fencing_tokens: FencingTokens,
    ) -> Self {
        let FencingTokens { first, last } = fencing_tokens;
        let since = confirmed.sent;
        Self {
            server_end: validity::server_end(since, claim.expire),
            claim,
            confirmed,
            is_answered: true,
            is_doubtful: false,
            leftovers: Leftovers::default(),
            used: first,
            reserved: last,
            budget: &CONTESTED,
            entitled_callers: 0,
            passes: 0,
            since,
        }
    }

    /// No other process waited when it was acquired.
    pub(crate) fn alone(self) -> Self {
        Self { budget: &ALONE, ..self }
    }

    /// Handed over by another process, as a signal said, to a process with `callers` waiting
    /// callers.
    pub(crate) fn signalled(self, now: Moment, callers: usize) -> Self {
        Self { is_answered: false, ..self.handed_over(now, callers) }
    }

    /// The lock was granted to the second try of a command.
    pub(crate) fn cut(mut self) -> Self {
        self.leftovers.was_cut = true;
        self
    }

    pub(crate) fn leftovers(&self) -> Leftovers {
        self.leftovers
    }

    /// The signal was not certain.
    pub(crate) fn doubted(self) -> Self {
        Self { is_doubtful: true, ..self }
    }

    /// Handed over by another process, to a process with `callers` waiting callers.
    pub(crate) fn handed_over(mut self, now: Moment, callers: usize) -> Self {
        self.budget = &CONTESTED;
        self.leftovers.was_queued = true;
        self.entitled_callers = u32::try_from(callers).unwrap_or(u32::MAX);
        self.since = now;
        self
    }

    /// Kept after other processes could have their turn: none waits, the lease is full, the tokens
    /// are new.
    pub(crate) fn kept(
        mut self,
        expire: Duration,
        confirmed: ConfirmedLease,
        fencing_tokens: FencingTokens,
    ) -> Self {
        self.claim.expire = expire;
        let kept = Self::new(self.claim, confirmed, fencing_tokens).alone();
        Self { leftovers: self.leftovers, ..kept }
    }

    /// Claimed after it was handed over: a full lease, and the tokens that were reserved with it.
    pub(crate) fn claimed(mut self, claim: Self) -> Self {
        if claim.used != self.reserved {
            // The counter was lost meanwhile, or the lock with all its data. A holder of a shared
            // kind has a new token with each answer.
            self.leftovers.may_be_queued = !self.claim.kind.is_shared();
            // A counter that somebody overwrote, or that a failover set back, may be behind tokens
            // that were used already.
            if claim.used > self.reserved {
                (self.used, self.reserved) = (claim.used, claim.reserved);
            }
        }
        self.claim = claim.claim;
        self.confirmed = claim.confirmed;
        self.server_end = claim.server_end;
        (self.is_answered, self.is_doubtful) = (true, false);
        self.leftovers.was_cut |= claim.leftovers.was_cut;
        self
    }

    /// Does the lease suit a caller that wants leases of `expire`?
    pub(crate) fn suits(&self, expire: Duration, now: Moment) -> bool {
        let is_known = self.is_answered || (!self.is_doubtful && self.is_fresh(now));
        self.claim.expire == expire && is_known
    }

    /// Has an answer just confirmed a full lease?
    pub(crate) fn is_answered(&self) -> bool {
        self.is_answered
    }

    /// May the lease become one of `expire`? It must not grow: a late command of its past would cut
    /// it to its earlier length.
    pub(crate) fn may_become(&self, expire: Duration) -> bool {
        expire <= self.claim.expire
    }

    /// Notes the last confirmed lease of the holder, and when its last lease ends on the server.
    pub(crate) fn renewed(&mut self, confirmed: ConfirmedLease, server_end: Moment) {
        (self.confirmed, self.server_end) = (confirmed, server_end);
    }

    /// A command left at `sent` that may have begun a lease, and was not answered.
    pub(crate) fn note_unanswered(&mut self, sent: Moment) {
        self.server_end = self.server_end.max(validity::server_end(sent, self.claim.expire));
    }

    /// When the lease ends on the server at the latest, as far as this clock can tell.
    pub(crate) fn server_end(&self) -> Moment {
        self.server_end
    }

    /// When the first hold of this tenure begins.
    pub(crate) fn since(&self) -> Moment {
        self.since
    }

    /// The fencing token of the caller that holds the lock now.
    pub(crate) fn fencing_token(&self) -> FencingToken {
        self.used
    }

    /// Its holder has a fencing token that the other keys of the hold have as well. The counter of
    /// the lock is not below it.
    pub(crate) fn raised(&mut self, fencing_token: FencingToken) {
        self.used = fencing_token;
        self.reserved = self.reserved.max(fencing_token);
    }

    /// How far its fencing tokens were used.
    pub(crate) fn drawn(&self) -> TokensUsed {
        TokensUsed { used: self.used, reserved: self.reserved }
    }

    /// How far its fencing tokens were used, if so many reserved ones are left that the release
    /// gives them back.
    pub(crate) fn tokens_to_give_back(&self) -> Option<TokensUsed> {
        let left = u64::from(self.reserved).saturating_sub(self.used.into());
        (left >= SMALL_RESERVE.into()).then_some(self.drawn())
    }

    /// Moves the tenure to the next caller if that caller gets a full lease and a fencing token of
    /// its own, and no other process has to have its turn first.
    pub(crate) fn pass(&mut self, expire: Duration, now: Moment) -> bool {
        let Budget { passes, time } = *self.budget;
        let is_within = self.passes < passes && now.since(self.since) < time;
        let is_fit = self.claim.expire == expire && self.is_fresh(now);
        is_fit && (is_within || self.has_entitled_callers()) && self.move_on()
    }

    /// Moves the tenure to the next caller, which has to claim it first: its lease is not full any
    /// more, but callers that waited when it was handed over have not had their turn.
    pub(crate) fn pass_for_claim(&mut self, now: Moment) -> bool {
        let is_passed = self.has_entitled_callers() && self.move_on();
        if is_passed {
            (self.is_answered, self.since) = (false, now);
        }
        is_passed
    }

    /// Have some of the callers that waited at the hand-over not had their turn?
    fn has_entitled_callers(&self) -> bool {
        self.passes + 1 < self.entitled_callers
    }

    fn move_on(&mut self) -> bool {
        let Some(next) = self.used.after().filter(|next| *next <= self.reserved) else {
            return false;
        };
        self.used = next;
        self.passes += 1;
        true
    }

    fn is_claimed(&self) -> bool {
        self.confirmed.lease >= self.claim.expire
    }

    /// Has the lease just begun?
    fn is_fresh(&self, now: Moment) -> bool {
        let ConfirmedLease { sent, lease } = self.confirmed;
        let young = if self.is_claimed() { lease / 10 } else { lease.min(CLAIM_WINDOW) / 4 };
        now.since(sent) <= young
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::LockKey;
    use crate::kind::Kind;
    use crate::owner::Owner;

    const EXPIRE: Duration = Duration::from_secs(10);

    fn at(micros: u64) -> Moment {
        Moment::from_nanos(micros * 1_000)
    }

    fn tenure(lease: Duration, reserved: u64) -> Tenure {
        let key = LockKey::new("", "k").unwrap();
        let claim =
            Claim { key, owner: Owner::of_nobody("web-3"), expire: EXPIRE, kind: Kind::Exclusive };
        let first = FencingToken::new(100).unwrap();
        let last = FencingToken::new(100 + reserved).unwrap();
        let confirmed = ConfirmedLease { sent: at(0), lease };
        Tenure::new(claim, confirmed, FencingTokens { first, last })
    }

    #[test]
    fn every_caller_has_a_larger_fencing_token_until_the_reserved_ones_are_used() {
        let mut tenure = tenure(EXPIRE, 2);
        assert!(tenure.pass(EXPIRE, at(1)));
        assert_eq!(tenure.fencing_token(), FencingToken::new(101).unwrap());
        assert!(tenure.pass(EXPIRE, at(2)));
        assert_eq!(tenure.fencing_token(), FencingToken::new(102).unwrap());
        assert!(!tenure.pass(EXPIRE, at(3)));
        assert_eq!(tenure.fencing_token(), FencingToken::new(102).unwrap());
    }

    #[test]
    fn a_lease_of_another_length_is_not_passed_on() {
        assert!(!tenure(EXPIRE, 9).pass(EXPIRE / 2, at(1)));
    }

    #[test]
    fn no_caller_gets_a_lease_that_is_partly_used_up() {
        let mut tenure = tenure(EXPIRE, 9);
        tenure.since = at(1_000_001);
        assert!(tenure.pass(EXPIRE, at(1_000_000)));
        assert!(!tenure.pass(EXPIRE, at(1_000_001)));
    }

    #[test]
    fn a_lock_that_is_not_claimed_yet_is_passed_on_at_the_beginning_of_its_window_only() {
        let mut tenure = tenure(CLAIM_WINDOW, 9).handed_over(at(250_000), 1);
        assert!(tenure.pass(EXPIRE, at(250_000)));
        assert!(!tenure.pass(EXPIRE, at(250_001)));
    }

    /// For a lease of any length: short leases are never cut to the claim window.
    #[test]
    fn a_caller_signalled_after_a_long_wait_has_to_claim_first() {
        for lease in [EXPIRE, CLAIM_WINDOW] {
            let signalled = |now| tenure(lease, 9).signalled(now, 1);
            assert!(signalled(at(100_000)).suits(EXPIRE, at(100_000)), "{lease:?}");
            assert!(!signalled(at(2_000_000)).suits(EXPIRE, at(2_000_000)), "{lease:?}");
            let confirmed = ConfirmedLease { sent: at(2_000_000), lease: EXPIRE };
            let claim = Tenure { confirmed, ..tenure(EXPIRE, 9) };
            assert!(signalled(at(2_000_000)).claimed(claim).suits(EXPIRE, at(2_000_000)));
        }
    }

    /// Somebody overwrote the counter before the claim, or a failover set it back.
    #[test]
    fn a_claim_never_takes_a_fencing_token_back() {
        let number = |value| FencingToken::new(value).unwrap();
        let claim = |first, last| {
            let fencing_tokens = FencingTokens { first: number(first), last: number(last) };
            let claim =
                Tenure::new(tenure(EXPIRE, 0).claim, tenure(EXPIRE, 0).confirmed, fencing_tokens);
            let claimed = tenure(EXPIRE, 9).signalled(at(1), 1).claimed(claim);
            (claimed.used, claimed.reserved)
        };
        assert_eq!(claim(5, 5), (number(100), number(109)));
        assert_eq!(claim(109, 109), (number(100), number(109)), "its own counter");
        assert_eq!(claim(200, 203), (number(200), number(203)), "the counter was lost");
    }

    #[test]
    fn other_processes_have_their_turn_once_the_budget_is_used_up() {
        let mut alone = tenure(EXPIRE, 1 << 20).alone();
        assert!(alone.pass(EXPIRE, at(9_999)));
        assert!(!alone.pass(EXPIRE, at(10_000)));
        let mut contested = tenure(EXPIRE, 1 << 20).handed_over(at(0), 1);
        assert!((0..CONTESTED.passes).all(|_| contested.pass(EXPIRE, at(1_999))));
        assert!(!contested.pass(EXPIRE, at(1_999)));
        for mut slow in [tenure(EXPIRE, 9), tenure(EXPIRE, 9).handed_over(at(0), 1)] {
            assert!(!slow.pass(EXPIRE, at(2_000)));
        }
    }

    /// However long each caller takes, as long as the lease is fresh or claimed anew.
    #[test]
    fn callers_who_waited_when_it_was_handed_over_have_their_turn_and_no_others() {
        let mut tenure = tenure(EXPIRE, 1 << 20).handed_over(at(0), 4);
        assert!(tenure.pass(EXPIRE, at(400_000)) && tenure.pass(EXPIRE, at(800_000)));
        assert!(!tenure.pass(EXPIRE, at(1_200_000)), "too little is left of the lease");
        let used = tenure.fencing_token();
        assert!(tenure.pass_for_claim(at(1_200_000)) && tenure.fencing_token() > used);
        assert!(!tenure.suits(EXPIRE, at(1_200_000)) && tenure.may_become(EXPIRE));
        assert!(!tenure.pass_for_claim(at(1_300_000)), "four have had their turn");
    }

    #[test]
    fn a_call_that_is_not_certain_has_to_be_claimed_however_fresh_it_is() {
        let signalled = || tenure(CLAIM_WINDOW, 9).signalled(at(1), 1);
        assert!(signalled().suits(EXPIRE, at(1)));
        assert!(!signalled().doubted().suits(EXPIRE, at(1)));
        let confirmed = ConfirmedLease { sent: at(1), lease: EXPIRE };
        let claim = Tenure { confirmed, ..tenure(EXPIRE, 9) };
        assert!(signalled().doubted().claimed(claim).suits(EXPIRE, at(1)));
    }

    #[test]
    fn a_few_fencing_tokens_are_not_given_back() {
        assert_eq!(tenure(EXPIRE, u64::from(SMALL_RESERVE) - 1).tokens_to_give_back(), None);
        let drawn = tenure(EXPIRE, SMALL_RESERVE.into()).tokens_to_give_back();
        assert_eq!(drawn.map(|drawn| drawn.used), FencingToken::new(100));
    }

    #[test]
    fn a_tenure_that_was_kept_begins_anew() {
        let confirmed = ConfirmedLease { sent: at(50_000), lease: EXPIRE / 2 };
        let first = FencingToken::new(500).unwrap();
        let fencing_tokens = FencingTokens { first, last: FencingToken::new(600).unwrap() };
        let mut kept = tenure(EXPIRE, 0).kept(EXPIRE / 2, confirmed, fencing_tokens);
        assert_eq!(kept.fencing_token(), first);
        assert!(kept.pass(EXPIRE / 2, at(50_001)));
    }
}
