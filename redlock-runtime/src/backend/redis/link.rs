//! One shared connection to a node, made when it is needed and replaced when it is broken.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use deadpool::managed::Manager;
use deadpool_redis::Pool;
use deadpool_redis::redis::RedisResult;
use deadpool_redis::redis::aio::MultiplexedConnection;

/// Longer than any timeout of ours: the client's own, set by whoever made the pool, must not fire
/// before ours does.
const NO_LIMIT: Duration = Duration::from_secs(24 * 3600);

/// A connection on loan. Clones share the socket; commands are pipelined in the order of sending.
#[derive(Clone)]
pub(super) struct Loan {
    pub(super) connection: MultiplexedConnection,
    generation: u64,
}

/// The pool is the source of connections, never the place where they are kept: they are made on the
/// background thread, whose runtime lives as long as the process, and stay there.
pub(super) struct Link {
    pool: Pool,
    /// Somebody else made the pool: its connections have timeouts of their own.
    is_foreign: bool,
    current: Mutex<Current>,
    connecting: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Current {
    loan: Option<Loan>,
    generation: u64,
}

impl Link {
    pub(super) fn new(pool: Pool, is_foreign: bool) -> Self {
        Self {
            pool,
            is_foreign,
            current: Mutex::default(),
            connecting: tokio::sync::Mutex::default(),
        }
    }

    /// The shared connection, made now if there is none. Callers that come meanwhile wait for the
    /// same one. Cancel safe: a connection half made is dropped.
    pub(super) async fn borrow(&self) -> RedisResult<Loan> {
        if let Some(loan) = self.current().loan.clone() {
            return Ok(loan);
        }
        let _one_at_a_time = self.connecting.lock().await;
        if let Some(loan) = self.current().loan.clone() {
            return Ok(loan);
        }
        // `create`, not `get`: an idle connection of the pool may be driven by a runtime that is
        // gone, and checking it costs a round trip or, on a frozen server, a timeout each.
        let mut connection = Manager::create(self.pool.manager()).await?;
        if self.is_foreign {
            connection.set_response_timeout(NO_LIMIT);
        }
        let mut current = self.current();
        current.generation += 1;
        let loan = Loan { connection, generation: current.generation };
        current.loan = Some(loan.clone());
        Ok(loan)
    }

    /// Forgets a connection, unless it has been replaced already.
    pub(super) fn discard(&self, loan: &Loan) {
        let mut current = self.current();
        if current.loan.as_ref().is_some_and(|now| now.generation == loan.generation) {
            current.loan = None;
        }
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
