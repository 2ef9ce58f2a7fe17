//! Who answers at a node's address, since when, and what its clock does.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use deadpool_redis::redis::aio::ConnectionLike;
use deadpool_redis::redis::{self, RedisResult};

use super::offset::{OffsetWatch, Sample};
use super::probe::field;
use super::source::Source;
use super::subscription::{Listener, Subscription};
use crate::backend::{Cause, Recall};
use crate::clock::{Clock, Moment};
use crate::telemetry;

/// The clock that moments are counted on.
pub(super) const CLOCK: Clock = Clock::Boot;

/// A node, seen over all of its connections. Any restart breaks them: who answers is asked anew on
/// each new one.
#[derive(Debug)]
pub(super) struct Presence {
    node: String,
    /// Where clients leave a roll: if it outlived a restart, so did the locks.
    roll_key: Option<Arc<str>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    identity: Option<Identity>,
    recall: Option<Recall>,
    /// When the last question that was answered left.
    heard: Option<Moment>,
    offset: OffsetWatch,
}

/// What INFO says of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Identity {
    run_id: Arc<str>,
    /// Names the history of its data; a promotion begins a new one.
    history: String,
    /// It was a replica once.
    was_promoted: bool,
}

impl Presence {
    pub(super) fn new(node: String, roll_key: Option<Arc<str>>) -> Self {
        Self { node, roll_key, state: Mutex::default() }
    }

    pub(super) fn recall(&self) -> Option<Recall> {
        self.state().recall.clone()
    }

    /// Asks a new connection who is there, if anybody wants to know. A user who may not ask is
    /// served nevertheless; what the server forgets is then not noticed.
    async fn meet(&self, connection: &mut (impl ConnectionLike + Send)) -> RedisResult<()> {
        let Some(roll_key) = &self.roll_key else { return Ok(()) };
        let info: RedisResult<String> = redis::cmd("INFO").query_async(connection).await;
        let now = CLOCK.now();
        match info {
            Ok(info) => {
                if let Some((identity, uptime)) = Identity::parse(&info) {
                    let is_durable = is_durable(&info, roll_key, connection).await?;
                    let doubt = self.state().meet(&identity, uptime, is_durable, now);
                    if let Some(cause) = doubt {
                        telemetry::node_doubted(&self.node, cause.label());
                    }
                }
            }
            Err(error) if error.code() == Some("NOPERM") => tracing::warn!(
                node = self.node,
                "this user may not run INFO, so a restart of the server is not noticed; grant +info"
            ),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Learns from an answer that brought the server's time.
    pub(super) fn hear(&self, sample: Sample) {
        let millis = {
            let mut state = self.state();
            state.heard = state.heard.max(Some(sample.sent));
            let Some(jump) = state.offset.observe(sample) else { return };
            let run_id = state.identity.as_ref().map(|known| Arc::clone(&known.run_id));
            let (run_id, millis) = (run_id.unwrap_or_default(), jump / 1000);
            let cause = Cause::ClockJumped(millis);
            state.recall = Some(Recall { run_id, since: sample.received, cause });
            millis
        };
        // Outside of the mutex: recorders and subscribers are code of others.
        telemetry::node_doubted(&self.node, Cause::ClockJumped(millis).label());
        tracing::warn!(
            node = self.node,
            millis,
            "the server's clock jumped; leases follow it: slew clocks, do not step them"
        );
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Does the server keep every write over a crash, and has it kept those before this one? It syncs
/// its log before it answers, and the roll is still there. A user who may not read the
/// configuration gets the careful answer.
async fn is_durable(
    info: &str,
    roll_key: &str,
    connection: &mut (impl ConnectionLike + Send),
) -> RedisResult<bool> {
    if field(info, "aof_enabled") != Some("1") {
        return Ok(false);
    }
    let roll: Option<String> = redis::cmd("GET").arg(roll_key).query_async(connection).await?;
    let mut ask = redis::cmd("CONFIG");
    ask.arg("GET").arg("appendfsync");
    let policy: RedisResult<Vec<String>> = ask.query_async(connection).await;
    Ok(roll.is_some() && policy.is_ok_and(|reply| reply.iter().any(|word| word == "always")))
}

/// A source that asks each new connection who is there.
pub(super) struct Watched<S> {
    pub(super) source: S,
    pub(super) presence: Arc<Presence>,
}

impl<S: Source> Source for Watched<S> {
    type Connection = S::Connection;

    async fn connect(&self) -> RedisResult<S::Connection> {
        let mut connection = self.source.connect().await?;
        self.presence.meet(&mut connection).await?;
        Ok(connection)
    }

    const LEADS_TO_ONE: bool = S::LEADS_TO_ONE;

    fn leads(
        connection: &mut S::Connection,
        key: Option<&str>,
    ) -> impl Future<Output = bool> + Send {
        S::leads(connection, key)
    }

    fn channel(&self, prefix: &str) -> String {
        self.source.channel(prefix)
    }

    fn subscribe(
        &self,
        listener: Listener,
    ) -> impl Future<Output = RedisResult<Option<Subscription>>> + Send {
        self.source.subscribe(listener)
    }

    const IS_PORTABLE: bool = S::IS_PORTABLE;
}

impl State {
    /// `Some`: it may have forgotten leases since it was met last.
    fn meet(
        &mut self,
        identity: &Identity,
        uptime: Duration,
        is_durable: bool,
        now: Moment,
    ) -> Option<Cause> {
        // INFO counts whole seconds: the server may have started up to one second later.
        let born = now.minus(uptime.saturating_sub(Duration::from_secs(1)));
        let run_id = Arc::clone(&identity.run_id);
        let (since, cause) = match self.identity.replace(identity.clone()) {
            // A new history without a promotion: only the backlog for replicas was given up.
            Some(known) if known.run_id == identity.run_id => {
                if known.history == identity.history || !identity.was_promoted {
                    return None;
                }
                (now, Cause::Replaced)
            }
            // Older than the last answer of the other one: it ran beside it.
            Some(_) if identity.was_promoted || self.heard.is_some_and(|heard| born < heard) => {
                (now, Cause::Replaced)
            }
            // A gap from before the restart is one after it: what had ended early was not kept.
            _ if is_durable => {
                let gap = self.recall.take().filter(|recall| recall.cause != Cause::Started);
                gap.map_or((Moment::ZERO, Cause::Started), |gap| (gap.since, gap.cause))
            }
            None => (born, Cause::Started),
            Some(_) => (born, Cause::Restarted),
        };
        self.recall = Some(Recall { run_id, since, cause });
        (cause != Cause::Started).then_some(cause)
    }
}

impl Identity {
    /// `None`: a server that does not tell who it is.
    fn parse(info: &str) -> Option<(Self, Duration)> {
        let run_id = Arc::from(field(info, "run_id")?);
        let uptime = Duration::from_secs(field(info, "uptime_in_seconds")?.parse().ok()?);
        let history = field(info, "master_replid").unwrap_or_default().to_owned();
        let before = field(info, "master_replid2").unwrap_or_default();
        let was_promoted = before.bytes().any(|byte| byte != b'0');
        Some((Self { run_id, history, was_promoted }, uptime))
    }
}

#[cfg(test)]
mod tests;
