//! Which process answers at a node's address, since when, and whether its clock jumps.

use std::sync::Arc;
use std::time::Duration;

use deadpool_redis::redis;
use deadpool_redis::redis::aio::ConnectionLike;
use deadpool_redis::redis::{ErrorKind, RedisError, RedisResult, ServerErrorKind};
use tokio::sync::Notify;

use super::clock_jump::{ClockJumps, Sample};
use super::info::{InfoText, field};
use crate::backend::redis::clock::CLOCK;
use crate::backend::redis::connection::{CountingConnections, MetServer, Superseded, is_withheld};
use crate::backend::{Cause, ClockOffset, MemorySince, Predecessor};
use crate::clock::Moment;
use crate::denial::Denial;
use crate::mutex::Mutex;
use crate::shield::tell;
use crate::telemetry;
use identity::Identity;
use proof::{Proof, prove};

/// A clock that wobbles may jump with every answer; it is told this often at most.
const JUMP_AGAIN: Duration = Duration::from_secs(60);

/// An address that leads to several servers in turn is followed this often at most.
const MOVES_AGAIN: Duration = Duration::from_secs(1);

/// The identity of a node over all of its connections. A restart breaks them, so each new
/// connection identifies the server anew.
#[derive(Debug)]
pub(crate) struct ServerIdentity {
    node: String,
    /// The key of the founders: if it outlived a restart, so did the locks.
    founders_key: Option<Arc<str>>,
    state: Mutex<IdentityState>,
    /// Without a restart guard: notified when another process answers than before.
    moves: Notify,
    /// Likewise: whether the user may not ask.
    pub(crate) info_denial: Denial,
}

#[derive(Debug, Default)]
struct IdentityState {
    identity: Option<Identity>,
    /// When it was met or heard last.
    heard: Moment,
    memory_since: Option<MemorySince>,
    /// Moves when another process is met, or this one as a replica: older connections lead there.
    counting: CountingConnections,
    /// Without a restart guard: the process that answers the newest connection that was asked.
    newest: Option<(Superseded, Arc<str>)>,
    /// Likewise: the process that was the first to say who it is.
    first: Option<Arc<str>>,
    /// When connections were superseded last because the address had moved.
    moved: Option<Moment>,
    offset: ClockJumps,
    /// The latest time that its clock has shown, in microseconds since 1970.
    shown: Option<i64>,
    /// When a jump of its clock was told last.
    jump_told: Option<Moment>,
    /// How many were not told since.
    jumps_untold: u64,
    /// It was reported that the server does not identify itself.
    is_reported: bool,
}

impl ServerIdentity {
    pub(crate) fn new(node: String, founders_key: Option<Arc<str>>) -> Self {
        let (state, moves, info_denial) = (Mutex::default(), Notify::new(), Denial::default());
        Self { node, founders_key, state, moves, info_denial }
    }

    /// Is the server identified on each new connection?
    pub(crate) fn is_asking(&self) -> bool {
        self.founders_key.is_some()
    }

    /// The process that answers, whether it was promoted since or not; `None`: servers are not
    /// identified, or none was met yet.
    pub(crate) fn run_id(&self) -> Option<Arc<str>> {
        self.state.lock().run_id()
    }

    /// The same; without a restart guard, as the newest connection has said.
    pub(crate) fn answering(&self) -> Option<Arc<str>> {
        let state = self.state.lock();
        let newest = || state.newest.as_ref().map(|(_, run_id)| Arc::clone(run_id));
        state.run_id().or_else(newest)
    }

    pub(crate) fn memory_since(&self) -> Option<MemorySince> {
        self.state.lock().memory_since.clone()
    }

    pub(crate) fn clock_offset(&self) -> Option<ClockOffset> {
        self.state.lock().offset.known()
    }

    /// What is known of the server of a connection that begins now.
    pub(crate) fn begin(&self) -> MetServer {
        let begun = CLOCK.now();
        MetServer { begun, run_id: None, superseded: self.state.lock().counting.begin(begun) }
    }

    /// Is the process that answers a new connection asked for, though no restart guard needs it?
    pub(crate) fn is_recognizing(&self) -> bool {
        !self.is_asking() && !self.info_denial.lasts(|| CLOCK.now())
    }

    /// Without a restart guard: the process that was met first.
    pub(crate) fn first_met(&self) -> Option<Arc<str>> {
        self.state.lock().first.clone()
    }

    /// Learns from INFO which process answers a connection, where no restart guard asks. If it is
    /// another one than that of an older connection, the address has moved: what is granted over
    /// the older one, a renewal over the newer one would not find. `Some`: the address moves often,
    /// and this is to be called again after a pause.
    pub(crate) fn recognize(&self, info: &str, connection: &Superseded) -> Option<Duration> {
        let run_id = field(info, "run_id").filter(|run_id| !run_id.is_empty())?;
        let (now, mut state) = (CLOCK.now(), self.state.lock());
        let pause = state.recognize(run_id, connection, now);
        let has_moved = state.moved == Some(now);
        drop(state);
        if has_moved {
            self.moves.notify_one();
        }
        pause
    }

    /// Waits until another process answers than before, as `recognize` has found.
    pub(crate) async fn moves(&self) {
        self.moves.notified().await;
    }

    /// No connection is used any more that has `begun` by then: its server was replaced.
    pub(crate) fn leave(&self, begun: Moment) {
        self.state.lock().counting.leave(begun);
    }

    /// Identifies the server of a new connection, if a restart guard needs it. A server that does
    /// not identify itself might have been restarted at any time: it is not used. Nor is a replica:
    /// it has the data of its master, and its promotion shows on new connections only. Nor is a
    /// server that was left while the connection was made: nothing is learned from it.
    pub(crate) async fn meet(
        &self,
        connection: &mut (impl ConnectionLike + Send),
        began: MetServer,
    ) -> RedisResult<MetServer> {
        let Some(founders_key) = &self.founders_key else { return Ok(began) };
        let info: RedisResult<InfoText> = redis::cmd("INFO").query_async(connection).await;
        let now = CLOCK.now();
        let InfoText(info) = match info {
            Err(error) if is_withheld(&error) => {
                self.tell_unknown();
                return Err(error);
            }
            info => info?,
        };
        let Some(identity) = Identity::parse(&info) else {
            self.tell_unknown();
            return Err(RedisError::from((ErrorKind::UnexpectedReturnType, UNKNOWN)));
        };
        let shown = field(&info, "server_time_usec").and_then(|micros| micros.parse().ok());
        let known = {
            let mut state = self.state.lock();
            check_left(&began)?;
            if field(&info, "role") == Some("slave") {
                state.meet_replica(now);
                let kind = ErrorKind::Server(ServerErrorKind::ReadOnly);
                return Err(RedisError::from((kind, "a replica", REPLICA.to_owned())));
            }
            if state.identity.as_ref() == Some(&identity) {
                state.shows(shown);
                return Ok(state.met(began.begun));
            }
            state.identity.clone()
        };
        let proof = prove(&info, &identity, known.as_ref(), founders_key, connection).await?;
        // The list of founders is as old as its reading, which may be long after the server told
        // who it is.
        let now = CLOCK.now();
        let (doubt, met) = {
            let mut state = self.state.lock();
            check_left(&began)?;
            (state.meet(&identity, proof, shown, now), state.met(began.begun))
        };
        if let Some(cause) = doubt {
            telemetry::node_doubted(&self.node, cause.label());
        }
        Ok(met)
    }

    fn tell_unknown(&self) {
        if !std::mem::replace(&mut self.state.lock().is_reported, true) {
            tell!(warn, node = self.node, "no vote: {UNKNOWN}");
        }
    }

    /// Learns from an answer that brought the server's time.
    pub(crate) fn hear(&self, sample: Sample) {
        let (millis, untold) = {
            let mut state = self.state.lock();
            state.heard = state.heard.max(sample.received);
            state.shows(Some(sample.micros));
            let Some(jump) = state.offset.observe(sample) else { return };
            let millis = jump / 1000;
            state.jumped(sample.received, millis);
            (millis, state.tells_jump(sample.received))
        };
        self.tell_jump(millis, untold);
    }

    /// Outside of the mutex: recorders and subscribers run foreign code. `untold`: how many jumps
    /// were not told before; `None`: nor is this one.
    #[cold]
    fn tell_jump(&self, millis: i64, untold: Option<u64>) {
        telemetry::node_doubted(&self.node, Cause::ClockJumped(millis).label());
        let Some(untold) = untold else { return };
        tell!(
            warn,
            node = self.node,
            millis,
            untold,
            "the server's clock jumped; leases follow it: slew clocks, do not step them"
        );
    }
}

const UNKNOWN: &str = "the server does not tell who it is, so that a restart would not be noticed: \
                       its INFO has to show `run_id`, and this user needs +info";

/// Fails if the server was left to which this connection leads. Servers are left under the mutex of
/// the state.
fn check_left(began: &MetServer) -> RedisResult<()> {
    if began.superseded.is_left() {
        return Err(RedisError::from((ErrorKind::Io, "a former master", LEFT.to_owned())));
    }
    Ok(())
}

const LEFT: &str = "another server took the place of this one while the connection was made";

const REPLICA: &str = "this server is a replica, and has no vote; make it a master again \
                       (`REPLICAOF NO ONE`), or name a master in its place";

/// In microseconds.
const MILLI: i64 = 1_000;

impl IdentityState {
    /// The clock of the server has `shown` this. Returns what it had shown before.
    fn shows(&mut self, shown: Option<i64>) -> Option<i64> {
        let last = self.shown;
        self.shown = last.max(shown);
        last
    }

    /// `Some`: the server may have forgotten leases since it was met last. `shown`: what its clock
    /// showed when it said who it is.
    fn meet(
        &mut self,
        identity: &Identity,
        proof: Proof,
        shown: Option<i64>,
        now: Moment,
    ) -> Option<Cause> {
        let run_id = identity.name();
        let last_shown = self.shows(shown);
        let known = self.identity.replace(identity.clone());
        let heard = std::mem::replace(&mut self.heard, now);
        if let Some(known) = known.as_ref().filter(|known| known.run_id == identity.run_id) {
            // A new history without a promotion: only the backlog for replicas was given up.
            if known.history == identity.history || !identity.was_promoted {
                self.memory_since = self.memory_since.take().map(|known| known.renamed(run_id));
                return None;
            }
        }
        let is_other = known.as_ref().is_some_and(|known| known.run_id != identity.run_id);
        if is_other {
            self.counting.supersede_all(now);
        }
        let former = known.as_ref().filter(|_| is_other);
        let former = former.and_then(|known| self.followed(known.name(), shown, now));
        let (proof, heir_of) = proof.believed(former, last_shown);
        let cause = match known {
            None => Cause::Started,
            Some(_) if identity.was_promoted => Cause::Replaced,
            Some(_) => Cause::Restarted,
        };
        let memory = |since, cause| MemorySince::new(Arc::clone(&run_id), since, cause);
        let memory_since = match proof {
            Proof::Durable(watched_for) => {
                let since = watched_for.map_or(Moment::ZERO, |watched_for| now.minus(watched_for));
                // A gap from before the restart remains: leases that had ended early were not kept.
                let gap = self.memory_since.take().filter(|gap| gap.cause != Cause::Started);
                let gap = gap.filter(|gap| gap.since > since);
                let gap = gap.map(|gap| MemorySince { run_id: Arc::clone(&run_id), ..gap });
                let kept = gap.unwrap_or_else(|| memory(since, Cause::Started));
                MemorySince { heir_of, ..kept }
            }
            // Clients have not watched it here while another process answered: the address has
            // moved there and back, and what was granted meanwhile is not known to this one.
            Proof::Watched(watched_for) if is_other && now.minus(watched_for) < heard => {
                memory(now, cause)
            }
            Proof::Watched(watched_for) => memory(now.minus(watched_for), cause),
            Proof::Nothing | Proof::Inherited(..) => memory(now, cause),
        };
        let cause = memory_since.cause;
        self.memory_since = Some(memory_since);
        (cause != Cause::Started).then_some(cause)
    }

    /// The process before one that is met `now`, when its clock has `shown` this. Servers before
    /// Redis 7.0 do not tell it with the rest.
    fn followed(&self, former: Arc<str>, shown: Option<i64>, now: Moment) -> Option<Predecessor> {
        let least = || self.offset.known().map(|offset| offset.shows(now).0);
        let followed_at = shown.or_else(least)?.div_euclid(MILLI);
        Some(Predecessor { run_id: former, followed_at })
    }

    /// The clock of the server has jumped by `millis`: what it granted before `since` is in doubt.
    /// Without a restart guard it is not known what it remembers.
    fn jumped(&mut self, since: Moment, millis: i64) {
        let jump = Cause::ClockJumped(millis);
        self.memory_since = self.memory_since.take().map(|known| known.doubted(since, jump));
    }

    /// Is a jump of the clock to be told now? `Some`: how many were not, since the last one.
    fn tells_jump(&mut self, now: Moment) -> Option<u64> {
        if self.jump_told.is_some_and(|told| now.since(told) < JUMP_AGAIN) {
            self.jumps_untold += 1;
            return None;
        }
        self.jump_told = Some(now);
        Some(std::mem::take(&mut self.jumps_untold))
    }

    fn run_id(&self) -> Option<Arc<str>> {
        self.identity.as_ref().map(|identity| Arc::clone(&identity.run_id))
    }

    /// What a connection that `begun` then has met.
    fn met(&self, begun: Moment) -> MetServer {
        MetServer { begun, run_id: self.run_id(), superseded: self.counting.begin(begun) }
    }

    /// `Some`: too soon after the last time that the address has moved.
    fn recognize(
        &mut self,
        run_id: &str,
        connection: &Superseded,
        now: Moment,
    ) -> Option<Duration> {
        self.first.get_or_insert_with(|| run_id.into());
        if connection.is_set() {
            return None;
        }
        if let Some((newest, known)) = &self.newest {
            let is_other = **known != *run_id;
            if connection.is_older(newest) {
                if is_other {
                    self.counting.supersede(connection);
                }
                return None;
            }
            if is_other {
                let since = self.moved.map_or(MOVES_AGAIN, |moved| now.since(moved));
                let pause = MOVES_AGAIN.saturating_sub(since);
                if !pause.is_zero() {
                    return Some(pause);
                }
                self.moved = Some(now);
                // A connection between these two may lead to either process. It will show which.
                self.counting.supersede(newest);
            }
        }
        self.newest = Some((connection.clone(), run_id.into()));
        None
    }

    /// The server that was known is a replica now. It grants nothing, and has forgotten what it
    /// granted before. Connections that outlive its promotion show neither.
    fn meet_replica(&mut self, now: Moment) {
        let Some(run_id) = self.identity.as_ref().map(Identity::name) else { return };
        self.counting.supersede_all(now);
        self.memory_since = Some(MemorySince::new(run_id, now, Cause::Replaced));
    }
}

mod identity;
mod proof;
#[cfg(test)]
mod tests;
