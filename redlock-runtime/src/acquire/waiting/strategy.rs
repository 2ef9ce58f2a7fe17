//! How a poller waits: by repeated attempts, or in the queue of a server.

use std::sync::Arc;

use super::context::PollerContext;
use crate::backend::QueueSignal;
use crate::clock::Moment;
use crate::engine::Engine;
use crate::hold::{Tenure, Terms};

pub(super) trait Strategy: Sized + Send + 'static {
    fn new(engine: &Engine) -> Self;

    /// Asks for the lock for the first waiter: by one attempt, or by a look at the entry in the
    /// queue of the server, after which a second command may be sent in the same turn. `None`: the
    /// lock was not granted.
    fn ask(
        &mut self,
        poller: &mut PollerContext,
        terms: Terms,
    ) -> impl Future<Output = Option<Tenure>> + Send;

    /// Decides when to ask next. `was_freed`: a holder of this process has released the lock since
    /// the last call, or a release hint came.
    fn plan_next_ask(&mut self, was_freed: bool, now: Moment) -> Moment;

    /// Asks next at this moment, unless the poller has an entry in a queue.
    fn set_next_ask(&mut self, moment: Moment);

    /// The lock was granted.
    fn note_granted(&mut self);

    /// Resolves when the server signals something. Cancel safe.
    fn signal(&mut self) -> impl Future<Output = QueueSignal> + Send;

    /// Handles a signal. `Some`: the lock was handed over.
    fn hear(&mut self, poller: &PollerContext, signal: QueueSignal) -> Option<Tenure>;

    /// A holder of this process left its tenure, so that other processes have their turn. `Some`:
    /// the tenure goes to the waiters of this process after all.
    fn give_way(
        &mut self,
        poller: &mut PollerContext,
        tenure: Tenure,
    ) -> impl Future<Output = Option<Tenure>> + Send;

    /// Does the poller wait in the queue of a server?
    fn is_queued(&self) -> bool;

    /// Leaves the queue of the server; a lock that was handed over meanwhile is released.
    fn leave(&mut self, engine: &Arc<Engine>);

    /// Does the server keep a queue that this client may use?
    fn has_queue(&self, engine: &Engine) -> bool;
}
