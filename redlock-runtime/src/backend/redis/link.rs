//! One shared connection to a node, made when it is needed and replaced when it is broken.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use deadpool_redis::redis::RedisResult;

use super::source::Source;

/// How long another connection may take before it is given up.
const REPLACEMENT: Duration = Duration::from_secs(5);
/// How long a connection may take to show that it leads somewhere.
const SIGN_OF_LIFE: Duration = Duration::from_secs(1);

/// A connection on loan. Clones share the socket; commands are pipelined in the order of sending.
#[derive(Clone)]
pub(super) struct Loan<C> {
    pub(super) connection: C,
    generation: u64,
}

pub(super) struct Link<S: Source> {
    source: Arc<S>,
    current: Arc<Mutex<Current<S::Connection>>>,
    connecting: tokio::sync::Mutex<()>,
}

struct Current<C> {
    loan: Option<Loan<C>>,
    generation: u64,
    is_being_replaced: bool,
}

impl<S: Source> Link<S> {
    pub(super) fn new(source: Arc<S>) -> Self {
        let current = Current { loan: None, generation: 0, is_being_replaced: false };
        let current = Arc::new(Mutex::new(current));
        Self { source, current, connecting: tokio::sync::Mutex::default() }
    }

    /// The shared connection, if there is one.
    pub(super) fn at_hand(&self) -> Option<Loan<S::Connection>> {
        self.current().loan.clone()
    }

    /// The shared connection, made now if there is none. Callers that come meanwhile wait for the
    /// same one. Cancel safe: a connection half made is dropped.
    pub(super) async fn borrow(&self) -> RedisResult<Loan<S::Connection>> {
        if let Some(loan) = self.at_hand() {
            return Ok(loan);
        }
        let _one_at_a_time = self.connecting.lock().await;
        if let Some(loan) = self.at_hand() {
            return Ok(loan);
        }
        let connection = self.source.connect().await?;
        Ok(self.current().install(connection))
    }

    /// The connection broke, gave no answer or a wrong one when it was asked about `key`.
    pub(super) fn failed(&self, loan: &Loan<S::Connection>, key: &str) {
        if S::LEADS_TO_ONE { self.discard(loan) } else { self.replace(loan, key) }
    }

    pub(super) fn is_connected(&self) -> bool {
        self.current().loan.is_some()
    }

    /// Forgets a connection, unless it has been replaced already.
    pub(super) fn discard(&self, loan: &Loan<S::Connection>) {
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
            let made = tokio::time::timeout(REPLACEMENT, source.connect()).await;
            let mut made = made.ok().and_then(RedisResult::ok);
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
                current.install(connection);
            }
        });
    }

    fn current(&self) -> MutexGuard<'_, Current<S::Connection>> {
        lock(&self.current)
    }
}

impl<C: Clone> Current<C> {
    fn install(&mut self, connection: C) -> Loan<C> {
        self.generation += 1;
        let loan = Loan { connection, generation: self.generation };
        self.loan = Some(loan.clone());
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
