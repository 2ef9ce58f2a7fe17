//! One shared connection to a node, made when it is needed and replaced when it is broken.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use deadpool_redis::redis::RedisResult;

use super::source::Source;

/// A connection on loan. Clones share the socket; commands are pipelined in the order of sending.
#[derive(Clone)]
pub(super) struct Loan<C> {
    pub(super) connection: C,
    generation: u64,
}

pub(super) struct Link<S: Source> {
    source: Arc<S>,
    current: Mutex<Current<S::Connection>>,
    connecting: tokio::sync::Mutex<()>,
}

struct Current<C> {
    loan: Option<Loan<C>>,
    generation: u64,
}

impl<S: Source> Link<S> {
    pub(super) fn new(source: Arc<S>) -> Self {
        let current = Mutex::new(Current { loan: None, generation: 0 });
        Self { source, current, connecting: tokio::sync::Mutex::default() }
    }

    /// The shared connection, made now if there is none. Callers that come meanwhile wait for the
    /// same one. Cancel safe: a connection half made is dropped.
    pub(super) async fn borrow(&self) -> RedisResult<Loan<S::Connection>> {
        if let Some(loan) = self.current().loan.clone() {
            return Ok(loan);
        }
        let _one_at_a_time = self.connecting.lock().await;
        if let Some(loan) = self.current().loan.clone() {
            return Ok(loan);
        }
        let connection = self.source.connect().await?;
        let mut current = self.current();
        current.generation += 1;
        let loan = Loan { connection, generation: current.generation };
        current.loan = Some(loan.clone());
        Ok(loan)
    }

    pub(super) fn is_connected(&self) -> bool {
        self.current().loan.is_some()
    }

    /// Forgets a connection, unless it has been replaced already.
    pub(super) fn discard(&self, loan: &Loan<S::Connection>) {
        let mut current = self.current();
        if current.loan.as_ref().is_some_and(|now| now.generation == loan.generation) {
            current.loan = None;
        }
    }

    fn current(&self) -> MutexGuard<'_, Current<S::Connection>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
