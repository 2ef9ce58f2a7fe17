//! What happens to a command, as a test says it.

use std::time::Duration;

use super::fate::Fate;
use super::node::FaultyNode;
use super::script::Command;
use crate::error::NodeErrorKind;

/// A fault that a test plans, from [`FaultyStore::next`](crate::testing::FaultyStore::next) or
/// [`every`](crate::testing::FaultyStore::every): its methods say what happens to the command.
///
/// ```
/// use redlock::testing::{Command, FaultyStore, PlannedFault};
///
/// let store = FaultyStore::new();
/// let fault: PlannedFault<'_> = store.next(Command::Release);
/// fault.lose_reply();
/// ```
#[must_use = "nothing is planned until one of its methods says what happens"]
#[derive(Debug)]
pub struct PlannedFault<'a> {
    node: &'a FaultyNode,
    command: Command,
    is_standing: bool,
}

impl<'a> PlannedFault<'a> {
    pub(super) fn new(node: &'a FaultyNode, command: Command, is_standing: bool) -> Self {
        Self { node, command, is_standing }
    }

    /// The server carries the command out, but its reply never comes: after `reply_timeout` (1 s by
    /// default) the library gives up, and does not know what happened.
    ///
    /// ```
    /// use redlock::testing::{Command, FaultyStore};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// let store = FaultyStore::new();
    /// # let redlock = store.client().await?;
    /// store.next(Command::Acquire).lose_reply();
    /// assert!(redlock.lock("stock-42").try_acquire().await.unwrap_err().is_unavailable());
    /// assert_eq!(store.owner("lock:stock-42"), None); // what it may have taken was given back
    /// # Ok(()) }
    /// ```
    pub fn lose_reply(self) {
        self.plan(Fate::LostReply);
    }

    /// The command never reaches the server. The library sees what it sees of a lost reply:
    /// nothing, for `reply_timeout`.
    ///
    /// ```
    /// use redlock::testing::{Command, FaultyStore};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// let store = FaultyStore::new();
    /// # let redlock = store.client().await?;
    /// let guard = redlock.lock("stock-42").acquire().await?;
    /// store.next(Command::Release).lose_request();
    /// assert!(guard.release().await.unwrap_err().is_unavailable());
    /// assert!(store.owner("lock:stock-42").is_some()); // the background goes on trying
    /// # Ok(()) }
    /// ```
    pub fn lose_request(self) {
        self.plan(Fate::LostRequest);
    }

    /// The reply comes `by` this much later. One that is later than the library waits for it
    /// (`reply_timeout`, less for renewals of short leases and for N masters) is a lost one.
    ///
    /// ```
    /// use std::time::Duration;
    /// use redlock::testing::{Command, FaultyStore};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// let store = FaultyStore::new();
    /// # let redlock = store.client().await?;
    /// store.every(Command::Any).delay(Duration::from_millis(300));
    /// let began = tokio::time::Instant::now();
    /// let guard = redlock.lock("stock-42").acquire().await?;
    /// assert_eq!(began.elapsed(), Duration::from_millis(300));
    /// # drop(guard);
    /// # Ok(()) }
    /// ```
    pub fn delay(self, by: Duration) {
        self.plan(Fate::Slow(by));
    }

    /// The server answers with an error of this kind, and does not carry the command out.
    /// [`Unreachable`](NodeErrorKind::Unreachable) is not an answer: no connection could be made
    /// then; and [`NoReply`](NodeErrorKind::NoReply) is [`lose_request`](Self::lose_request).
    ///
    /// ```
    /// use redlock::NodeErrorKind;
    /// use redlock::testing::{Command, FaultyStore};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// let store = FaultyStore::new();
    /// # let redlock = store.client().await?;
    /// store.every(Command::Acquire).refuse(NodeErrorKind::NoPermission);
    /// let error = redlock.lock("stock-42").acquire().await.unwrap_err();
    /// assert!(error.to_string().contains("NOPERM"));
    /// assert_eq!(error.retry_after(), None); // nothing but a person can help
    /// # Ok(()) }
    /// ```
    pub fn refuse(self, kind: NodeErrorKind) {
        self.plan(match kind {
            NodeErrorKind::NoReply => Fate::LostRequest,
            _ => Fate::Refused(kind, kind.is_final()),
        });
    }

    fn plan(self, fate: Fate) {
        let script = &mut self.node.state().script;
        if self.is_standing {
            script.every(self.command, Some(fate));
        } else {
            script.next(self.command, [fate]);
        }
    }
}
