//! Batches (group commit): what many callers ask at the same moment leaves in one script.
//!
//! A script costs the server as much for its way in as for what it does, and the client a message
//! to the task that drives the connection. So while many commands are on their way, acquires and
//! releases wait for the callers that run next on the same runtime, and leave with theirs. Each
//! caller gets an answer as if its command had left by itself. What comes later on the same
//! connection comes after the batch. Within a batch the releases go first, so that a lock that is
//! released and wanted in the same batch is granted.

mod batches;
mod sent;

use std::sync::{Arc, Weak};

use deadpool_redis::redis::aio::ConnectionLike;
use deadpool_redis::redis::{Cmd, Pipeline, RedisFuture, Value};

pub(crate) use self::batches::Batches;
use super::met_server::MetServer;
use crate::backend::redis::commands::{Part, PartAnswer};

/// A connection on which batches can form. Clones share the socket.
#[derive(Clone)]
pub(crate) struct Batching<C> {
    made: Arc<Made<C>>,
    /// Cloned from that one when a command leaves by itself: most are part of a batch where many
    /// are sent, and a clone costs more than the rest of a loan.
    own: Option<Box<C>>,
    /// `None`: every command leaves by itself. Each command on its way has a clone.
    batches: Option<Arc<Batches<C>>>,
}

/// A connection as it was made.
struct Made<C> {
    connection: C,
    met: MetServer,
}

/// A connection that may have been given up since.
pub(super) struct WeakConnection<C>(Weak<Made<C>>);

impl<C: Clone> WeakConnection<C> {
    pub(super) fn upgrade(&self) -> Option<C> {
        self.0.upgrade().map(|made| made.connection.clone())
    }
}

impl<C> Batching<C> {
    pub(crate) fn met(&self) -> &MetServer {
        &self.made.met
    }
}

impl<C: ConnectionLike + Clone + Send + Sync + 'static> Batching<C> {
    /// `met`: the server that the connection leads to.
    pub(crate) fn new(connection: C, met: MetServer) -> Self {
        Self { made: Arc::new(Made { connection, met }), own: None, batches: None }
    }

    /// Refers to the connection without keeping it open.
    pub(super) fn downgrade(&self) -> WeakConnection<C> {
        WeakConnection(Arc::downgrade(&self.made))
    }

    /// The connection on which every command leaves by itself.
    pub(crate) fn inner(&mut self) -> &mut C {
        self.own.get_or_insert_with(|| Box::new(self.made.connection.clone()))
    }

    /// Batches form on this connection, which belongs to the runtime of the caller.
    pub(crate) fn with_batches(self) -> Self {
        let batches = Batches::new(self.made.connection.clone());
        Self { batches: Some(Arc::new(batches)), ..self }
    }

    /// The command leaves with those of other callers. `None`: it has to leave by itself, as few
    /// commands are on their way.
    pub(crate) fn join<F: FnOnce() -> Part>(
        &self,
        part: F,
    ) -> Option<impl Future<Output = PartAnswer> + Send + use<C, F>> {
        let batches = self.batches.as_ref().filter(|batches| batches.is_crowded())?;
        Some(batches.join(part()).answer())
    }

    /// Is there a place on the connection for one more release that nobody awaits? `may_join`: it
    /// can be part of a batch.
    pub(crate) fn has_room(&self, may_join: bool) -> bool {
        self.batches.as_ref().is_none_or(|batches| batches.has_room(may_join))
    }

    /// Sends the batch that forms, before what leaves by itself.
    fn send_batch(&self) {
        if let Some(batches) = &self.batches {
            batches.send_now();
        }
    }

    /// `None`: the connection is not that of a caller's runtime.
    pub(crate) fn batches(&self) -> Option<Arc<Batches<C>>> {
        self.batches.clone()
    }
}

impl<C: ConnectionLike + Clone + Send + Sync + 'static> ConnectionLike for Batching<C> {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        self.send_batch();
        self.inner().req_packed_command(command)
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        self.send_batch();
        self.inner().req_packed_commands(pipeline, offset, count)
    }

    fn get_db(&self) -> i64 {
        self.made.connection.get_db()
    }
}

#[cfg(test)]
mod tests;
