//! The connection of a caller's runtime to the server, as the callers on that runtime use it.

use std::sync::Arc;

use tokio::runtime::Handle;

use super::RedisNode;
use crate::backend::redis::connection::Source;
use crate::backend::{LocalConnection, LockBackend};
use crate::clock::paused_runtime;
use crate::process;

impl<S: Source> LocalConnection for RedisNode<S> {
    /// The route of the caller's runtime. `None`: there is none yet, or there cannot be one.
    fn local_connection(&self) -> Option<Arc<dyn LockBackend>> {
        if !self.may_be_local || self.process != process::id() {
            return None;
        }
        let here = Handle::try_current().ok()?;
        // The clock of a test that is paused jumps while a reply is awaited, and would end the
        // command.
        if paused_runtime().is_some() {
            return None;
        }
        let route = self.runtimes.route_of(&here, &self.route)?;
        Some(route)
    }
}
