//! A caller that waits for an answer from the executor.

use std::iter::once;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::coop::unconstrained;

use super::direct_attempt::{DirectAttempt, DirectOutcome};
use crate::backend::Claim;
use crate::background_thread::stopped;
use crate::engine::Engine;
use crate::error::LockError;
use crate::hold::Terms;
use crate::key::LockKey;
use crate::local_queue::CountedRelease;
use crate::process::OfProcess;
use crate::thread_exit::Unsent;

/// Runs a command on the executor of the client, and returns what it sends. It goes on if the
/// caller goes away. `what`: the command, for an error. `keys`: those that it may lock.
pub(super) async fn on_executor<'a, T: Send + 'static, F: Future<Output = ()> + Send + 'static>(
    engine: &'a Engine,
    what: &'static str,
    keys: impl Iterator<Item = &'a LockKey> + Clone,
    command: impl FnOnce(oneshot::Sender<T>) -> F,
) -> Result<T, LockError> {
    let (reply, answer) = oneshot::channel();
    let mut answer = OfProcess::new(engine.process, answer);
    let caller = Caller { engine, keys, is_answered: false, gone: Arc::default() };
    // From here on: a shutdown may come before the task begins.
    let (gone, pending) = (Arc::clone(&caller.gone), engine.pending.begin());
    // Boxed: the task would have it twice, as its argument and while it awaits it.
    let command = Box::pin(command(reply));
    engine.executor().spawn(async move {
        command.await;
        drop((gone, pending));
    })?;
    // `answer` is borrowed, not moved: `caller` notes that it is gone before the receiver is
    // dropped. The budget of the caller's task does not count: it may block on this, and would
    // never hear.
    let answer = unconstrained(&mut answer).await;
    caller.hears();
    answer.map_err(|_| stopped(what))
}

impl DirectAttempt {
    /// The backend is reached from its executor only. A task there completes the attempt. If the
    /// caller has gone meanwhile, the task drops the lock, and the drop frees it.
    pub(super) async fn make_on_executor(
        self,
        engine: &Arc<Engine>,
        terms: Terms,
        claim: Claim,
        within: Duration,
    ) -> Result<DirectOutcome, LockError> {
        let (own, key) = (Arc::clone(engine), claim.key.clone());
        let outcome = on_executor(engine, "an acquire", once(&key), |reply| async move {
            let found =
                self.attempt_over((&own, &*own.backend), &terms, &claim, within, false).await;
            let _ = reply.send(match found {
                Ok(found) => Ok(self.outcome(found)),
                Err(error) => Err(error),
            });
        });
        outcome.await?
    }
}

/// A caller that waits for an answer from the executor. If it goes away before the answer, the end
/// of its thread waits until the command is completed, and so do calls that the command may have
/// kept from the lock.
struct Caller<'a, K: Iterator<Item = &'a LockKey> + Clone> {
    engine: &'a Engine,
    keys: K,
    is_answered: bool,
    /// Shared with the task that sends the command, until it is completed.
    gone: Arc<OnceLock<Gone>>,
}

/// A caller that has gone, until its command is completed.
struct Gone {
    _unsent: Option<Unsent>,
    _leaving: Vec<CountedRelease>,
}

impl<'a, K: Iterator<Item = &'a LockKey> + Clone> Caller<'a, K> {
    fn hears(mut self) {
        self.is_answered = true;
    }
}

impl<'a, K: Iterator<Item = &'a LockKey> + Clone> Drop for Caller<'a, K> {
    fn drop(&mut self) {
        // In the child of a fork, another thread of the parent may have locked the counts.
        if self.is_answered || self.engine.check_process().is_err() {
            return;
        }
        let unsent = (!self.engine.is_embedded()).then(Unsent::here);
        let leaving = self.keys.clone().map(|key| self.engine.abandoned(key)).collect();
        self.gone.get_or_init(|| Gone { _unsent: unsent, _leaving: leaving });
    }
}
