//! All that is explored: each model as designed, and with each bug that the checker must find.

use crate::check::Case;
use crate::exclusion::{self, Exclusion, ONE_HOLDER, Restarts};
use crate::fencing::{DISTINCT, Fencing, Numbers};
use crate::guard_scheduler::{self as guard, Process};
use crate::line::{self, DEAD_ONES, EMPTY, JOINS_ONCE, LEFT, Line, RISING, SERVED};
use crate::waiting::{self, NO_ENTRY, PROMPT, Waiting};

mod kinds;

impl<const N: usize, const A: usize> Fencing<N, A> {
    const DESIGNED: Self = Self {
        numbers: Numbers::MaxPlusOne,
        quorum: N / 2 + 1,
        checks_owner: true,
        losses: 0,
        win_backs: 0,
    };
}

const V3: Fencing<3, 3> = Fencing::DESIGNED;

/// One node may forget, and `2 * quorum > N + 1`.
const V5: Fencing<4, 2> = Fencing { losses: 1, ..Fencing::DESIGNED };

impl<const N: usize, const A: usize> Exclusion<N, A> {
    const DESIGNED: Self = Self {
        quorum: N / 2 + 1,
        expire: 4,
        bug: exclusion::Bug::None,
        restarts: Restarts::Never,
        wins_back: false,
    };
}

const DESIGNED: Exclusion<3, 2> = Exclusion::DESIGNED;

/// As long as the longest lease.
const GUARD: Restarts = Restarts::Guarded { quarantine: DESIGNED.expire };

/// Explored in each run.
pub(crate) fn daily() -> Vec<Case> {
    [
        fencing(),
        exclusion(),
        exclusion_controls(),
        guard_scheduler(),
        guard_controls(),
        line(),
        line_controls(),
        waiting(),
        waiting_controls(),
        kinds::sharing(),
        kinds::sharing_controls(),
        kinds::ordered(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn fencing() -> Vec<Case> {
    let counts = Fencing { numbers: Numbers::MaxOfCounts, ..V3 };
    let sums = Fencing { numbers: Numbers::SumOfCounts, ..V3 };
    let unchecked = Fencing { checks_owner: false, ..V3 };
    let built = Fencing { numbers: Numbers::AsBuilt { clock: 1 }, ..V3 };
    let two = Fencing::<3, 2>::DESIGNED;
    let few = Fencing { numbers: Numbers::AsBuilt { clock: 3 }, win_backs: 2, ..two };
    let built_v5 = Fencing { numbers: Numbers::AsBuilt { clock: 2 }, ..V5 };
    vec![
        Case::violates("V1: highest of the counts", DISTINCT, counts),
        Case::violates("V1b: sum of the counts", DISTINCT, sums),
        Case::violates("V2: highest + 1, to anybody", DISTINCT, unchecked),
        Case::violates("V2: as built", DISTINCT, Fencing { checks_owner: false, ..built }),
        Case::holds("V3: highest + 1, to its owner", 41_471, two),
        Case::holds("V3: as built, clocks behind", 3_695_117, built),
        Case::holds("V3: as built, with win-backs", 700_810, few),
        Case::violates("V4: V3, a node forgets", DISTINCT, Fencing { losses: 1, ..V3 }),
        Case::violates("V4: as built", DISTINCT, Fencing { losses: 1, ..built }),
        Case::holds("V5: V4 with 2q > N + 1", 1_185_445, V5),
        Case::holds("V5: as built", 3_251_752, built_v5),
    ]
}

fn exclusion() -> Vec<Case> {
    let guarded = Exclusion { restarts: GUARD, ..DESIGNED };
    vec![
        Case::holds("as designed", 300_768, Exclusion::<3, 3>::DESIGNED),
        Case::holds("nodes restart empty, guarded", 865_639, guarded),
        Case::holds("the same, won back", 2_540_765, Exclusion { wins_back: true, ..guarded }),
    ]
}

fn exclusion_controls() -> Vec<Case> {
    let with = |variant, bug| Case::violates(variant, ONE_HOLDER, Exclusion { bug, ..DESIGNED });
    let restarting = |variant, quarantine| {
        let restarts = Restarts::Guarded { quarantine };
        Case::violates(variant, ONE_HOLDER, Exclusion { restarts, ..DESIGNED })
    };
    let unjudged = Exclusion { restarts: GUARD, bug: exclusion::Bug::RenewUnjudged, ..DESIGNED };
    let half = Exclusion::<4, 2> { quorum: 2, ..Exclusion::DESIGNED };
    vec![
        with("deadline from the reply", exclusion::Bug::DeadlineFromReply),
        with("no drift", exclusion::Bug::NoDrift),
        Case::violates("quorum of N/2", ONE_HOLDER, half),
        Case::violates("quorum of 1", ONE_HOLDER, Exclusion { quorum: 1, ..DESIGNED }),
        with("release without owner check", exclusion::Bug::ReleaseUnchecked),
        with("renewal without owner check", exclusion::Bug::RenewUnchecked),
        restarting("a node restarts empty, no guard", 0),
        restarting("guard shorter than the validity", DESIGNED.expire - 2),
        Case::violates("guard judges acquires only", ONE_HOLDER, unjudged),
    ]
}

fn guard_scheduler() -> Vec<Case> {
    let designed = |max_renew| process(guard::Bug::None, max_renew);
    vec![
        Case::holds("as designed", 71_089, designed(2)),
        Case::holds("as designed", 257_341, designed(4)),
    ]
}

fn guard_controls() -> Vec<Case> {
    let with = |variant, bug, property| Case::violates(variant, property, process(bug, 2));
    vec![
        with("select! instead of a look at the clock", guard::Bug::Select, guard::IN_TIME),
        with("frozen between look and step", guard::Bug::FrozenInPoll, guard::IN_TIME),
        with("frozen between look and step", guard::Bug::FrozenInPoll, guard::WITH_KEY),
        with("the guard asks a flag only", guard::Bug::FlagOnly, guard::TOLD),
        with("a late confirmation counts", guard::Bug::LateConfirmation, guard::TOLD),
        with("registered after the acquire", guard::Bug::RegisterLate, guard::IN_CARE),
        with("the same, the list is trusted", guard::Bug::RegisterLateUnasked, guard::LET_GO),
        with("forgotten after the release", guard::Bug::ForgetLate, guard::LET_GO),
        with("a renewal creates the key", guard::Bug::RenewCreates, guard::STAYS_FREE),
        with("a renewal without owner check", guard::Bug::RenewUnchecked, guard::OWN_LEASE),
        with("renewals are not counted", guard::Bug::NoLimit, guard::WITHIN_LIMIT),
        with("late renewals stretch the hold", guard::Bug::NoLongest, guard::NOT_TOO_OLD),
    ]
}

fn process(bug: guard::Bug, max_renew: u8) -> Process {
    Process { bug, max_renew }
}

impl<const P: usize> Line<P> {
    /// Any process may be late with anything, and nothing else is wrong.
    const DESIGNED: Self = Self {
        bug: line::Bug::None,
        expire: 3,
        window: 2,
        callers: 2,
        owners: 3,
        crashes: 0,
        cuts: 0,
        doubts: 0,
        has_untold: false,
        is_fair: false,
    };
}

const TWO: Line<2> = Line::DESIGNED;

const FAIR: Line<2> = Line { owners: 2, crashes: 1, cuts: 1, doubts: 2, is_fair: true, ..TWO };

fn line() -> Vec<Case> {
    let three = Line::<3> { callers: 1, ..Line::DESIGNED };
    let untold = Line { has_untold: true, cuts: 0, doubts: 1, ..FAIR };
    vec![
        Case::holds(
            "a process dies, and a reply is lost",
            1_716_187,
            Line { crashes: 1, doubts: 1, ..TWO },
        ),
        Case::holds("three processes", 286_081, three),
        Case::holds("who waits is served", 875_757, FAIR),
        Case::holds("the same, one cannot be told", 152_522, untold),
    ]
}

fn line_controls() -> Vec<Case> {
    let with = |variant, bug, property| Case::violates(variant, property, Line { bug, ..TWO });
    let doubting =
        |variant, bug, property| Case::violates(variant, property, Line { bug, doubts: 1, ..TWO });
    let fair = |variant, bug, property| Case::violates(variant, property, Line { bug, ..FAIR });
    let unclaimed = Line { bug: line::Bug::NoWindow, expire: 5, ..FAIR };
    let staying = Line { bug: line::Bug::LeaveStaysInLine, callers: 1, ..FAIR };
    vec![
        with("lease from the receipt of the signal", line::Bug::LeaseFromReceipt, line::ONE_HOLDER),
        with("a short lease counts as a full one", line::Bug::ShortLeaseIsFull, line::ONE_HOLDER),
        with("a late signal releases a tenure", line::Bug::LateCallReleases, line::ONE_HOLDER),
        doubting("an owner joins again", line::Bug::JoinAgain, line::ONE_HOLDER),
        doubting("an owner joins again", line::Bug::JoinAgain, JOINS_ONCE),
        doubting("a rotate is sent again", line::Bug::RotateAgain, line::ONE_HOLDER),
        doubting("a rotate is sent again", line::Bug::RotateAgain, RISING),
        with("a late claim goes on with the signal's range", line::Bug::RangeOfLateCall, RISING),
        with("a lost hold is passed on", line::Bug::PassLost, RISING),
        with("fencing tokens are not reserved", line::Bug::Unreserved, RISING),
        with("given back while the next hold counts on", line::Bug::GiveBackOnPass, RISING),
        Case::violates("a hand-over without a window", DEAD_ONES, unclaimed),
        fair("a hand-over that nobody watches", line::Bug::NoWatch, DEAD_ONES),
        fair("a leave that keeps the lock", line::Bug::LeaveKeepsLock, LEFT),
        Case::violates("a leave that stays in line", EMPTY, staying),
        fair("nobody in line looks", line::Bug::NoFallback, SERVED),
    ]
}

impl<const P: usize, const C: usize> Waiting<P, C> {
    /// One caller may stall, and nothing else is wrong.
    const DESIGNED: Self =
        Self { bug: waiting::Bug::None, stalls: 1, losses: 0, cuts: 0, has_untold: false };
}

const WAITING: Waiting<2, 2> = Waiting::DESIGNED;

fn waiting() -> Vec<Case> {
    let one = Waiting::<1, 2> { stalls: 2, losses: 1, ..Waiting::DESIGNED };
    let three = Waiting::<1, 3> { losses: 1, ..Waiting::DESIGNED };
    let two = Waiting::<2, 1> { losses: 1, cuts: 1, ..Waiting::DESIGNED };
    vec![
        Case::holds("one process", 57_688, one),
        Case::holds("three callers", 85_560, three),
        Case::holds("one that is not told", 71_636, Waiting { has_untold: true, ..one }),
        Case::holds("two processes", 136_292, Waiting { stalls: 0, ..WAITING }),
        Case::holds("the same, with faults", 267_810, Waiting { stalls: 0, ..two }),
        Case::holds(
            "the same, one is not told",
            201_877,
            Waiting { has_untold: true, losses: 0, cuts: 0, ..two },
        ),
    ]
}

fn waiting_controls() -> Vec<Case> {
    let with =
        |variant, bug, property| Case::violates(variant, property, Waiting { bug, ..WAITING });
    let bug = waiting::Bug::ReturnOverReturn;
    let twice = Waiting::<1, 2> { bug, stalls: 0, losses: 1, ..Waiting::DESIGNED };
    let losing = |variant, bug, property| {
        Case::violates(variant, property, Waiting { bug, losses: 1, ..WAITING })
    };
    vec![
        with("a newcomer is no news", waiting::Bug::NewcomerUnheard, PROMPT),
        with("a newcomer relies on a question", waiting::Bug::AnythingTakenIsNews, PROMPT),
        with("a question counts for ever", waiting::Bug::QuestionForEver, PROMPT),
        with("an answer that is not read stands", waiting::Bug::AnswerForEver, PROMPT),
        with("a grant that is not taken is renewed", waiting::Bug::GrantForEver, PROMPT),
        losing("a lost lease is no news", waiting::Bug::LossUnheard, PROMPT),
        losing("a holder is not looked after", waiting::Bug::NeverBehindHolder, PROMPT),
        with("the last waiter's leave is no news", waiting::Bug::LeaveUnheard, NO_ENTRY),
        with("the last waiter's grant is no news", waiting::Bug::LastOneUnheard, NO_ENTRY),
        Case::violates("returned over what was returned", PROMPT, twice),
        with("a question's end is no news", waiting::Bug::EndUnheard, PROMPT),
    ]
}

/// Larger bounds of what holds.
pub(crate) fn larger() -> Vec<Case> {
    let mut all = larger_of_exclusive();
    all.extend(kinds::larger());
    all
}

fn larger_of_exclusive() -> Vec<Case> {
    let built = Fencing { numbers: Numbers::AsBuilt { clock: 2 }, ..V3 };
    let numbers = Numbers::AsBuilt { clock: 1 };
    let five = Fencing::<5, 2> { numbers, quorum: 4, losses: 2, ..Fencing::DESIGNED };
    let restarts = Restarts::Guarded { quarantine: 3 };
    let three = Exclusion::<3, 3> { expire: 3, restarts, ..Exclusion::DESIGNED };
    let untold = Waiting::<2, 1> { losses: 1, has_untold: true, ..Waiting::DESIGNED };
    vec![
        Case::holds("V3: highest + 1, to its owner", 15_489_896, V3),
        Case::holds("V3: as built", 18_563_864, built),
        Case::holds("V5: as built, 2q > N + 2, clocks behind", 8_868_450, five),
        Case::holds("nodes restart empty, guarded", 3_340_995, three),
        Case::holds("longer leases", 2_203_813, Line { expire: 4, doubts: 1, ..TWO }),
        Case::holds("a longer window, too", 418_371, Line { expire: 4, window: 3, ..TWO }),
        Case::holds("two processes, one is not told", 1_118_513, untold),
        Case::holds(
            "two processes, with faults",
            1_181_956,
            Waiting { cuts: 1, has_untold: false, ..untold },
        ),
    ]
}
