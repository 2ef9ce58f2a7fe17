//! One shared connection to a node, made when it is needed and replaced when it is broken.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use deadpool_redis::redis::RedisResult;
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::connect::connect;
use super::source::Source;
use crate::backend::SharedWork;
use crate::backend::redis::commands::Script;
use crate::backend::redis::health::CLOCK;
use crate::backend::redis::pubsub::broken;
use crate::clock::Moment;

/// How long a connection may take to show that it leads somewhere.
const SIGN_OF_LIFE: Duration = Duration::from_secs(1);
/// A connection that says nothing for so long is given up, however long it took to be made.
const LONGEST_SILENCE: Duration = Duration::from_secs(1);

/// A connection on loan. Clones share the socket; commands are pipelined in the order of sending.
#[derive(Clone)]
pub(crate) struct Loan<C> {
    pub(crate) connection: C,
    generation: u64,
    silence: Arc<Silence>,
}

/// Whether a connection answers.
struct Silence {
    /// In nanoseconds, when the first of the commands left whose callers have gone without a reply.
    /// Zero: the last command that was waited for was answered.
    since: AtomicU64,
    /// How long it may last. To be made, the connection needed more than one round trip: a command
    /// that was waited for less than that has not shown that the connection is broken.
    longest: Duration,
}

pub(crate) struct SharedConnection<S: Source> {
    source: Arc<S>,
    current: Arc<Mutex<Current<S::Connection>>>,
    connecting: SharedWork<RedisResult<Loan<S::Connection>>>,
    /// Of a lane; `None`: the runtime of whoever asks first.
    home: Option<Home>,
    /// What its commands run, which a new connection shows to the server.
    script: Option<&'static Script>,
}

/// Where the connection of a lane lives.
struct Home {
    runtime: Handle,
    /// The runtime of the node's own connection, which nobody blocks.
    timer: Option<Handle>,
}

struct Current<C> {
    loan: Option<Loan<C>>,
    generation: u64,
    is_being_replaced: bool,
    /// Where the last connection was made.
    made_on: Option<Handle>,
    /// The last one was given up as it did not answer.
    fell_silent: bool,
}

impl<S: Source> SharedConnection<S> {
    pub(crate) fn new(source: Arc<S>) -> Self {
        let current = Current {
            loan: None,
            generation: 0,
            is_being_replaced: false,
            made_on: None,
            fell_silent: false,
        };
        let current = Arc::new(Mutex::new(current));
        Self { source, current, connecting: SharedWork::default(), home: None, script: None }
    }

    /// For commands that run `script`, without keys of any lock at first: then it does nothing. A
    /// server that does not know it needs a second round trip, for which a caller may have no time.
    pub(crate) fn of(source: Arc<S>, script: &'static Script) -> Self {
        Self { script: S::LEADS_TO_ONE.then_some(script), ..Self::new(source) }
    }

    /// Another one of the same source, whose connection lives on `runtime`.
    pub(crate) fn on(&self, runtime: Handle) -> Self {
        let timer = self.current().made_on.clone();
        let home = Some(Home { runtime, timer });
        Self { home, ..Self::new(Arc::clone(&self.source)) }
    }

    /// The shared connection, if there is one.
    pub(crate) fn at_hand(&self) -> Option<Loan<S::Connection>> {
        self.current().loan.clone()
    }

    /// The shared connection, made now if there is none. Callers that come meanwhile wait for the
    /// same one. Cancel safe: it is made all the same, for whoever comes next.
    pub(crate) async fn borrow(&self) -> RedisResult<Loan<S::Connection>> {
        match self.at_hand() {
            Some(loan) => Ok(loan),
            None => self.make().await.unwrap_or_else(|| Err(broken())),
        }
    }

    /// As [`borrow`](Self::borrow). `None`: the runtime ended, or cannot have a connection.
    pub(crate) async fn make(&self) -> Option<RedisResult<Loan<S::Connection>>> {
        let home = match &self.home {
            Some(home) => home.runtime.clone(),
            None => Handle::try_current().ok()?,
        };
        let (source, current) = (Arc::clone(&self.source), Arc::clone(&self.current));
        let script = self.script;
        let made = self.connecting.join(&home, || async move {
            // It may have been made since the caller looked.
            if let Some(loan) = lock(&current).loan.clone() {
                return Ok(loan);
            }
            let begun = Instant::now();
            let connection = connect(&*source, script).await?;
            Ok(lock(&current).install(connection, begun.elapsed()))
        });
        made.await
    }

    /// The runtime whose timers bound the commands of a lane: that of the lane may be blocked by
    /// the very caller that waits for them.
    pub(crate) fn timer(&self) -> Option<&Handle> {
        self.home.as_ref()?.timer.as_ref()
    }

    /// The connection broke, gave a wrong answer or none when it was asked about `key`.
    pub(crate) fn failed(&self, loan: &Loan<S::Connection>, key: &str) {
        if S::LEADS_TO_ONE { self.discard(loan) } else { self.replace(loan, key) }
    }

    /// Nobody waits any more for the answer to a command about `key` that was `sent`.
    pub(crate) fn gave_no_answer(&self, loan: &Loan<S::Connection>, sent: Moment, key: &str) {
        if loan.is_silent(sent, CLOCK.now()) {
            self.current().fell_silent = true;
            self.failed(loan, key);
        }
    }

    /// Was the last connection given up because it did not answer?
    pub(crate) fn fell_silent(&self) -> bool {
        self.current().fell_silent
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.current().loan.is_some()
    }

    /// Forgets a connection, unless it has been replaced already.
    pub(crate) fn discard(&self, loan: &Loan<S::Connection>) {
        self.current().forget(loan);
    }

    /// Makes another connection, while this one goes on serving what it still leads to.
    fn replace(&self, loan: &Loan<S::Connection>, key: &str) {
        let mut current = self.current();
        if !current.is_now(loan) || std::mem::replace(&mut current.is_being_replaced, true) {
            return;
        }
        drop(current);
        let (source, current) = (Arc::clone(&self.source), Arc::clone(&self.current));
        let (mut loan, key) = (loan.clone(), key.to_owned());
        tokio::spawn(async move {
            let begun = Instant::now();
            let mut made = connect(&*source, None).await.ok();
            let took = begun.elapsed();
            let is_better = match &mut made {
                Some(connection) => leads::<S>(connection, Some(&key)).await,
                None => false,
            };
            // While one part is silent to both, the old one serves the others better: it does not
            // look for what it believes to have.
            let is_dead = !is_better && !leads::<S>(&mut loan.connection, None).await;
            let mut current = lock(&current);
            current.is_being_replaced = false;
            if !current.is_now(&loan) {
                return;
            }
            if is_dead {
                current.forget(&loan);
            }
            if let Some(connection) = made.filter(|_| is_better || is_dead) {
                current.install(connection, took);
            }
        });
    }

    fn current(&self) -> MutexGuard<'_, Current<S::Connection>> {
        lock(&self.current)
    }
}

impl<C> Loan<C> {
    /// It answers.
    pub(crate) fn heard(&self) {
        if self.silence.since.load(Ordering::Relaxed) != 0 {
            self.silence.since.store(0, Ordering::Relaxed);
        }
    }

    /// Has it been silent for too long, now that nobody waits any more for a command that was
    /// `sent`?
    fn is_silent(&self, sent: Moment, now: Moment) -> bool {
        let Silence { since, longest } = &*self.silence;
        let first =
            match since.compare_exchange(0, sent.nanos(), Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => sent,
                Err(first) => Moment::from_nanos(first),
            };
        now.since(first) >= *longest
    }
}

impl<C: Clone> Current<C> {
    /// Takes a connection into use that `took` so long to be made.
    fn install(&mut self, connection: C, took: Duration) -> Loan<C> {
        self.generation += 1;
        let silence = Silence { since: AtomicU64::new(0), longest: took.min(LONGEST_SILENCE) };
        let silence = Arc::new(silence);
        let loan = Loan { connection, generation: self.generation, silence };
        self.loan = Some(loan.clone());
        self.made_on = Handle::try_current().ok();
        self.fell_silent = false;
        loan
    }

    fn is_now(&self, loan: &Loan<C>) -> bool {
        self.loan.as_ref().is_some_and(|now| now.generation == loan.generation)
    }

    fn forget(&mut self, loan: &Loan<C>) {
        if self.is_now(loan) {
            self.loan = None;
        }
    }
}

async fn leads<S: Source>(connection: &mut S::Connection, key: Option<&str>) -> bool {
    let answer = tokio::time::timeout(SIGN_OF_LIFE, S::leads(connection, key));
    matches!(answer.await, Ok(true))
}

fn lock<C>(current: &Mutex<Current<C>>) -> MutexGuard<'_, Current<C>> {
    current.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use tokio::time::{sleep, timeout};

    use super::*;
    use crate::backend::redis::connection::Scripted;

    const SECOND: Duration = Duration::from_secs(1);

    /// Far away: its connections take three seconds to be made, and are counted.
    #[derive(Default)]
    struct Far {
        made: AtomicU32,
    }

    impl Source for Far {
        type Connection = Scripted;

        // Without company.
        const LEADS_TO_ONE: bool = false;

        async fn connect(&self) -> RedisResult<Scripted> {
            self.made.fetch_add(1, Ordering::Relaxed);
            sleep(3 * SECOND).await;
            Ok(Scripted::default())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_connect_outlives_those_who_wait_for_it() {
        let far = Arc::new(Far::default());
        let link = SharedConnection::new(Arc::clone(&far));
        for _ in 0..2 {
            assert!(timeout(SECOND, link.borrow()).await.is_err());
        }
        assert!(timeout(2 * SECOND, link.borrow()).await.unwrap().is_ok());
        assert_eq!(far.made.load(Ordering::Relaxed), 1);
        assert!(link.is_connected());
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_given_as_long_to_answer_as_it_took_to_be_made() {
        let link = SharedConnection::new(Arc::new(Scripted::default()));
        let install = |took| lock(&link.current).install(Scripted::default(), took);
        let before = |silence| CLOCK.now().minus(silence);
        let loan = install(SECOND);
        let now = CLOCK.now();
        assert!(!loan.is_silent(now, now.plus(SECOND / 2)), "its answer may be on the way");
        loan.heard();
        assert!(!loan.is_silent(now.plus(SECOND), now.plus(SECOND * 3 / 2)), "it has answered");
        assert!(loan.is_silent(now.plus(2 * SECOND), now.plus(2 * SECOND)), "since the first");

        for took in [SECOND / 2, 100 * SECOND] {
            let loan = install(took);
            // Sent a moment ago, however long this test takes.
            link.gave_no_answer(&loan, CLOCK.now().plus(3600 * SECOND), "k");
            loan.heard();
            assert!(link.is_connected() && !link.fell_silent());
            link.gave_no_answer(&loan, before(2 * SECOND), "k");
            assert!(!link.is_connected() && link.fell_silent());
        }
    }
}
