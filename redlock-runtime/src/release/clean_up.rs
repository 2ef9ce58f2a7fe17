//! Cleans up after commands whose answer is unknown or unwanted: frees what they may have acquired.

use std::sync::Arc;
use std::time::Duration;

use super::repetition::Repetition;
use crate::backend::{Claim, Fault, Found, Release};
use crate::background_thread::lasting_work::LastingWork;
use crate::clock::Moment;
use crate::engine::Engine;
use crate::local_queue::CountedRelease;
use crate::pending::{PendingCommand, UnawaitedCommand};
use crate::thread_exit::Unsent;

/// When the clean-up of an unanswered command is repeated after its first answer: the command may
/// still be in flight, and arrive later.
const REPEATS: [Duration; 3] = [SOON, Duration::from_millis(900), Duration::from_secs(2)];
/// How long an owner may stand in the queue of a server after it has gone: an entry has no lease.
const LONGEST_ENTRY: Duration = Duration::from_secs(60);
/// How late another connection may be. The end of a thread waits for the repetition after this
/// time.
const SOON: Duration = Duration::from_millis(100);

/// Frees what an unanswered command may have acquired, now or later; `may_be_queued`: it may also
/// have put its owner into the queue of the server.
pub(crate) fn clean_up(engine: &Arc<Engine>, claim: Claim, may_be_queued: bool) {
    free_until_answered(engine, claim, Way { may_be_queued, ahead: None, repeats: &REPEATS });
}

/// Leaves the queue of the server, and frees the lock if it was handed over meanwhile. `ahead`: how
/// many were ahead of it when it was seen last, where that is known.
pub(crate) fn leave(engine: &Arc<Engine>, claim: Claim, ahead: Option<u32>) {
    free_until_answered(engine, claim, Way { may_be_queued: true, ahead, repeats: &[] });
}

/// How an owner is freed.
#[derive(Clone, Copy)]
struct Way {
    may_be_queued: bool,
    ahead: Option<u32>,
    /// When it is freed again after an answer.
    repeats: &'static [Duration],
}

fn free_until_answered(engine: &Arc<Engine>, claim: Claim, way: Way) {
    let clean_up = CleanUp {
        engine: Arc::clone(engine),
        leaving: Some(engine.abandoned(&claim.key)),
        claim,
        way,
        begun: None,
        pending: Some(engine.pending.begin()),
        unawaited: None,
        unsent: (!engine.is_embedded()).then(Unsent::here),
    };
    // Without a background thread, no command was sent that could still arrive.
    let _ = engine.in_background(clean_up);
}

/// Frees an owner until that is answered, or the lease of the owner would be over.
struct CleanUp {
    engine: Arc<Engine>,
    /// A call that does not wait, and was refused, waits for the first answer.
    leaving: Option<CountedRelease>,
    claim: Claim,
    way: Way,
    /// When it was polled first.
    begun: Option<Moment>,
    /// A shutdown waits for it.
    pending: Option<PendingCommand>,
    unawaited: Option<UnawaitedCommand>,
    /// The end of the thread waits for it.
    unsent: Option<Unsent>,
}

impl LastingWork for CleanUp {
    async fn run(&mut self) {
        let Self { engine, leaving, claim, way, begun, pending, unawaited, unsent } = self;
        let clock = engine.clock();
        let begun = *begun.get_or_insert_with(|| clock.now());
        let lease_end = begun.plus(claim.expire);
        let until =
            if way.may_be_queued { lease_end.max(begun.plus(LONGEST_ENTRY)) } else { lease_end };
        let mut repeats = way.repeats.iter();
        let mut repetition = Repetition::begin(engine);
        while clock.now() < until {
            let answer = free(engine, claim, *way).await;
            drop(leaving.take());
            let again = match answer {
                Ok(Found::Ours) if engine.backend.abilities().is_synchronous => return,
                // A command that was sent twice because its connection broke may be granted twice,
                // the second time after this answer.
                Ok(found) => {
                    drop((pending.take(), unawaited.take()));
                    let Some(pause) = repeats.next() else { return };
                    if found == Found::Ours || *pause > SOON {
                        drop(unsent.take());
                    }
                    clock.now().plus(*pause)
                }
                Err(fault) => {
                    drop(unsent.take());
                    // A person has to change something, which a shutdown does not wait for.
                    if fault.ends_releases()
                        && let Some(pending) = pending.take()
                    {
                        *unawaited = Some(pending.unawaited());
                    }
                    repetition.next(engine)
                }
            };
            if pending.is_none() {
                clock.sleep_until(again).await;
                continue;
            }
            repetition.rest(engine, again.min(lease_end)).await;
            // A shutdown waits for locks, not for entries of a queue.
            if clock.now() >= lease_end {
                drop(pending.take());
            }
        }
    }
}

async fn free(engine: &Engine, claim: &Claim, way: Way) -> Result<Found, Fault> {
    let Way { may_be_queued, ahead, .. } = way;
    let release = Release { may_be_queued, ahead, ..Release::of(claim) };
    engine.backend.release(release, engine.reply_timeout).await
}
