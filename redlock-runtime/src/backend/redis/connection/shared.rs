//! One shared connection to a node, made when it is needed and replaced when it is broken.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use deadpool_redis::redis::RedisResult;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::batching::Batching;
use super::connect::connect;
use super::identified_source::IdentifiedSource;
use super::loan::Loan;
use super::source::Source;
use crate::backend::SharedWork;
use crate::backend::redis::clock::CLOCK;
use crate::backend::redis::commands::Script;
use crate::backend::redis::pubsub::broken;
use crate::background_thread::{self, BackgroundThread};
use crate::backoff;
use crate::clock::Moment;
use crate::mutex::Mutex;

/// How long a connection may take to show that the server answers.
const SIGN_OF_LIFE: Duration = Duration::from_secs(1);
/// A connection that ends sooner counts as one that could not be made.
const OF_USE: Duration = Duration::from_secs(1);
/// How long after a replacement another one is not begun, however many commands fail meanwhile;
/// after each further one twice as long, up to a second.
const REPLACED_AGAIN: Duration = Duration::from_millis(200);
const LONGEST_BETWEEN: Duration = Duration::from_secs(1);

pub(crate) struct SharedConnection<S: Source> {
    source: Arc<IdentifiedSource<S>>,
    current: Arc<Mutex<Current<S::Connection>>>,
    connecting: SharedWork<RedisResult<Loan<S::Connection>>>,
    /// Set on a local connection; `None`: the runtime of the first caller.
    home: Option<Home>,
    /// The script of its commands, which a new connection loads on the server.
    script: Option<&'static Script>,
}

/// Where a local connection lives.
struct Home {
    runtime: Handle,
    /// Its runtime bounds the commands: the caller that waits for a command may block the runtime
    /// of the connection. `None`: there was no such thread.
    background: Option<Arc<BackgroundThread>>,
}

struct Current<C> {
    loan: Option<Loan<C>>,
    is_being_replaced: bool,
    /// When the last replacement began, and how long after it the next one may begin.
    replaced: Option<(Instant, Duration)>,
    /// When the last connection was taken into use.
    installed_at: Option<Instant>,
    /// How many connections in a row could not be made, or were not of use for long.
    failures: u32,
    /// How often the pause between them doubles.
    pause_doublings: u32,
    /// No connection is made before.
    pause_until: Option<Instant>,
    /// When the last connection began to be made.
    made_at: Moment,
    /// The last connection was given up because it did not answer.
    fell_silent: bool,
}

impl<S: Source> SharedConnection<S> {
    pub(crate) fn new(source: Arc<IdentifiedSource<S>>) -> Self {
        let current = Current {
            loan: None,
            is_being_replaced: false,
            replaced: None,
            installed_at: None,
            failures: 0,
            pause_doublings: S::PAUSE_DOUBLINGS,
            pause_until: None,
            made_at: Moment::ZERO,
            fell_silent: false,
        };
        let current = Arc::new(Mutex::new(current));
        Self { source, current, connecting: SharedWork::default(), home: None, script: None }
    }

    /// For commands that run `script`. A new connection first runs it without keys, when it does
    /// nothing: a server that does not know the script needs a second round trip, for which a
    /// caller may have no time.
    pub(crate) fn of(source: Arc<IdentifiedSource<S>>, script: &'static Script) -> Self {
        Self { script: S::LEADS_TO_ONE.then_some(script), ..Self::new(source) }
    }

    /// Another shared connection to the same source, which lives on `runtime`.
    pub(crate) fn on(&self, runtime: Handle) -> Self {
        let home = Some(Home { runtime, background: background_thread::thread().ok() });
        Self { home, ..Self::new(Arc::clone(&self.source)) }
    }

    /// Does the client library send a command again by itself, without saying so?
    pub(crate) fn repeats_unseen(&self) -> bool {
        self.source.inner.repeats_unseen()
    }

    /// Looks at the shared connection, if there is one, without another reference to it.
    pub(crate) fn inspect<T>(&self, look: impl FnOnce(&Batching<S::Connection>) -> T) -> Option<T> {
        self.current.lock().retain_usable().map(|loan| look(&loan.connection))
    }

    /// The shared connection, if there is one.
    pub(crate) fn at_hand(&self) -> Option<Loan<S::Connection>> {
        self.current.lock().retain_usable().cloned()
    }

    /// The shared connection, made now if there is none. Callers that come meanwhile wait for the
    /// same one. Cancel safe: the connection is completed for later callers.
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
        let (script, is_local) = (self.script, self.home.is_some());
        let made = self.connecting.join(&home, || async move {
            // Another caller may have made it since this one looked.
            if let Some(loan) = current.lock().retain_usable().cloned() {
                return Ok(loan);
            }
            let pause_until = current.lock().pause_until;
            if let Some(until) = pause_until {
                sleep_until(until).await;
            }
            let begun = Instant::now();
            let made = connect(&source, script).await;
            let connection = made.inspect_err(|_| current.lock().pause())?;
            // The keys of a script have to be on one server.
            let may_batch = is_local && S::LEADS_TO_ONE;
            let connection = if may_batch { connection.with_batches() } else { connection };
            Ok(current.lock().install(&source, connection, begun.elapsed()))
        });
        made.await
    }

    /// Runs `act`, whose timers are those of the background thread for a local connection. A timer
    /// of a thread that has died would panic.
    fn with_timers<T>(&self, act: impl FnOnce() -> T) -> T {
        let Some(home) = &self.home else { return act() };
        if let Some(background) = home.background.as_ref().filter(|thread| !thread.has_died()) {
            let _timers = background.handle.enter();
            return act();
        }
        let replaced = background_thread::handle();
        let _timers = replaced.as_ref().ok().map(Handle::enter);
        act()
    }

    /// Runs `future` until `end`, by a timer of the background thread for a local connection.
    /// `None`: the time is over.
    pub(crate) async fn run_until<F: Future>(
        &self,
        end: Instant,
        mut future: Pin<&mut F>,
    ) -> Option<F::Output> {
        let Some(home) = &self.home else { return timeout_at(end, future).await.ok() };
        let known = home.background.as_deref();
        if !self.source.inner.has_timers() {
            return background_thread::until(known, end, future).await;
        }
        // Whoever polls may have no timers.
        let polled = poll_fn(|cx| self.with_timers(|| future.as_mut().poll(cx)));
        background_thread::until(known, end, polled).await
    }

    /// The connection broke, gave a wrong answer, or gave none to a command about `key`.
    pub(crate) fn failed(&self, loan: &Loan<S::Connection>, key: &str) {
        if S::LEADS_TO_ONE { self.discard(loan) } else { self.replace(loan, key) }
    }

    /// Has the connection ended while it was not used? Then it is forgotten: a command that fails
    /// on it may have been carried out, as far as anybody knows, and one that is not given to it
    /// has not been.
    pub(crate) fn forget_if_ended(&self, loan: &mut Loan<S::Connection>, now: Moment) -> bool {
        if loan.note_look(now) {
            return false;
        }
        let has_ended = self.with_timers(|| S::has_ended(loan.connection.inner()));
        if has_ended {
            self.discard(loan);
        }
        has_ended
    }

    /// The caller of a command about `key` that was `sent` has gone without an answer.
    pub(crate) fn gave_no_answer(&self, loan: &Loan<S::Connection>, sent: Moment, key: &str) {
        if loan.note_silence(sent, CLOCK.now()) {
            self.current.lock().fell_silent = true;
            self.failed(loan, key);
        }
    }

    /// Was the last connection given up because it did not answer?
    pub(crate) fn fell_silent(&self) -> bool {
        let mut current = self.current.lock();
        // Notes whether the connection was given up since.
        current.retain_usable();
        current.fell_silent
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.current.lock().retain_usable().is_some()
    }

    /// Forgets a connection, unless it has been replaced already.
    pub(crate) fn discard(&self, loan: &Loan<S::Connection>) {
        self.current.lock().forget(loan);
    }

    /// When the last connection began to be made.
    pub(crate) fn made_at(&self) -> Moment {
        self.current.lock().made_at
    }

    /// Forgets a connection that began to be made before this moment.
    pub(crate) fn discard_older(&self, than: Moment) {
        let mut current = self.current.lock();
        if current.made_at < than && current.loan.take().is_some() {
            current.note_loss();
        }
    }

    /// Takes the connection of another one into use, in place of its own.
    pub(crate) fn adopt(&self, other: &Self) {
        let adopted = other.current.lock().loan.take();
        if let Some(loan) = adopted {
            let took = loan.longest_silence();
            self.current.lock().install(&self.source, loan.connection, took);
        }
    }

    /// Makes another connection, while this one goes on serving the servers that still answer.
    fn replace(&self, loan: &Loan<S::Connection>, key: &str) {
        let mut current = self.current.lock();
        if !current.is_now(loan) || current.is_being_replaced || !current.begin_replacement() {
            return;
        }
        current.is_being_replaced = true;
        drop(current);
        let (source, current) = (Arc::clone(&self.source), Arc::clone(&self.current));
        let (mut loan, key) = (loan.clone(), key.to_owned());
        let replacing = Replacing(Arc::clone(&current));
        tokio::spawn(async move {
            let _replacing = replacing;
            let begun = Instant::now();
            let mut made = connect(&source, None).await.ok();
            let took = begun.elapsed();
            let is_better = match &mut made {
                Some(connection) => leads::<S>(connection.inner(), Some(&key)).await,
                None => false,
            };
            // If one part of the cluster is silent on both connections, the old one serves the
            // others better: it does not look for servers that it already knows.
            let is_dead = !is_better && !leads::<S>(loan.connection.inner(), None).await;
            let mut current = current.lock();
            if !current.is_now(&loan) {
                return;
            }
            if is_dead {
                current.forget(&loan);
            }
            if let Some(connection) = made.filter(|_| is_better || is_dead) {
                current.install(&source, connection, took);
            }
        });
    }
}

/// A connection is being replaced, until this is dropped.
struct Replacing<C>(Arc<Mutex<Current<C>>>);

impl<C> Drop for Replacing<C> {
    fn drop(&mut self) {
        self.0.lock().is_being_replaced = false;
    }
}

impl<C: Clone> Current<C> {
    /// Takes a connection into use. `took`: how long it took to be made.
    fn install<S: Source<Connection = C>>(
        &mut self,
        source: &IdentifiedSource<S>,
        connection: Batching<C>,
        took: Duration,
    ) -> Loan<C> {
        source.used(&connection);
        let loan = Loan::new(connection, took);
        self.loan = Some(loan.clone());
        self.installed_at = Some(Instant::now());
        self.made_at = loan.connection.met().begun;
        self.fell_silent = false;
        loan
    }

    /// The connection. It is dropped first if it was given up, or leads to a server that another
    /// one replaced.
    fn retain_usable(&mut self) -> Option<&Loan<C>> {
        let is_of_no_use = |loan: &mut Loan<C>| loan.is_given_up() || loan.is_superseded();
        if let Some(loan) = self.loan.take_if(is_of_no_use) {
            self.fell_silent |= !loan.is_superseded();
            self.note_loss();
        }
        self.loan.as_ref()
    }

    /// May a replacement begin now? Then it counts as begun. Where none of them has helped, the
    /// cluster itself is down.
    fn begin_replacement(&mut self) -> bool {
        let pause = match self.replaced {
            Some((at, pause)) if at.elapsed() < pause => return false,
            Some((at, pause)) if at.elapsed() < 2 * LONGEST_BETWEEN => {
                (2 * pause).min(LONGEST_BETWEEN)
            }
            _ => REPLACED_AGAIN,
        };
        self.replaced = Some((Instant::now(), pause));
        true
    }

    fn is_now(&self, loan: &Loan<C>) -> bool {
        self.loan.as_ref().is_some_and(|now| now.is_same(loan))
    }

    fn forget(&mut self, loan: &Loan<C>) {
        if self.is_now(loan) {
            self.loan = None;
            self.note_loss();
        }
    }

    /// The next connection is made at once if this one was of use for a while.
    fn note_loss(&mut self) {
        if self.installed_at.is_some_and(|at| at.elapsed() < OF_USE) {
            self.pause();
        } else {
            (self.failures, self.pause_until) = (0, None);
        }
    }

    /// The next connection is not made at once.
    fn pause(&mut self) {
        self.failures += 1;
        let pause = backoff::reconnect(self.failures, self.pause_doublings, fastrand::f64());
        self.pause_until = Some(Instant::now() + pause);
    }
}

async fn leads<S: Source>(connection: &mut S::Connection, key: Option<&str>) -> bool {
    let answer = tokio::time::timeout(SIGN_OF_LIFE, S::leads(connection, key));
    matches!(answer.await, Ok(true))
}

#[cfg(test)]
mod tests;
