//! The ability of a connection to send releases that nobody awaits, and to say when they have left.

use std::time::Duration;

use tokio::sync::oneshot;

use super::{Found, Release, Reply};
use crate::clock::Moment;

/// A backend over one connection of the caller's runtime.
pub(crate) trait Departures: Send + Sync {
    /// Told when all commands that callers have sent by now have left, before whatever they do
    /// next. It fails if the runtime ends before. `None`: there is no connection.
    fn next_departure(&self) -> Option<oneshot::Receiver<()>>;

    /// Does a release leave at once, and among few others? Otherwise it may wait for its place on
    /// the connection, or costs less if its caller awaits it, and has to be awaited. `may_join`: it
    /// can be part of a batch.
    fn has_room(&self, may_join: bool) -> bool;

    /// Releases as a part of the batch that forms `now`, which costs less. `None`: the release has
    /// to be sent by itself. The future waits for the answer of the batch without a limit, so that
    /// its caller needs one; a release that has to be sent once more takes `within` at most. Cancel
    /// safe: a release that has not left yet leaves the batch.
    fn join<'a>(
        &'a self,
        release: Release<'a>,
        within: Duration,
        now: Moment,
    ) -> Option<Reply<'a, Found>>;
}
