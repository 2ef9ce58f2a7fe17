//! Whether the servers of a client answer.

use std::sync::Arc;

use super::redlock::Redlock;
use crate::health::Health;

impl Redlock {
    /// Asks every server of this client, all at once, whether it answers: for readiness checks of a
    /// service, and for operators. It takes no lock and writes nothing, and ends within
    /// `reply_timeout`. The gauge `redlock_node_up` follows what it finds.
    ///
    /// It never fails: what is wrong with a server stands in
    /// [`NodeHealth::error`](crate::NodeHealth::error).
    ///
    /// # Cancel safety
    /// Dropping the future leaves nothing behind.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build().await?;
    /// let health = redlock.health().await;
    /// let status = if health.is_available() { 200 } else { 503 };
    /// for node in health.nodes() {
    ///     println!("{}: {:?} since {:?}", node.node(), node.round_trip(), node.since());
    /// }
    /// # assert_eq!(status, 200);
    /// # Ok(()) }
    /// ```
    pub async fn health(&self) -> Health {
        if self.engine().check_process().is_err() {
            return Health::unknown();
        }
        let engine = Arc::clone(self.engine());
        // On the executor of the client, where its connections live.
        let asked = self.engine().executor().run("a health check", async move {
            match engine.backend.abilities().health {
                Some(check) => check.check_health(engine.reply_timeout).await,
                None => Health::unknown(),
            }
        });
        asked.await.unwrap_or_else(|_| Health::unknown())
    }
}
