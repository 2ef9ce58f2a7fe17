//! The ability of a connection to say when the commands that were given to it have left.

use tokio::sync::oneshot;

/// A backend over one connection of the caller's runtime.
pub(crate) trait Departures: Send + Sync {
    /// Told when all commands that callers have sent by now have left, before whatever they do
    /// next. It fails if the runtime ends before. `None`: there is no connection.
    fn next_departure(&self) -> Option<oneshot::Receiver<()>>;

    /// Does a release leave at once, and among few others? Otherwise it may wait for its place on
    /// the connection, or costs less if its caller awaits it, and has to be awaited. `may_join`: it
    /// can be part of a batch.
    fn has_room(&self, may_join: bool) -> bool;
}
