//! The way of one process to one node: a backend whose commands meet the weather.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::network::{Connection, Course, End};
use super::node::{Answer, Card, Command};
use super::plan::{NEVER, Tick, millis};
use super::scripts::By;
use super::waiting::Watch;
use super::world::World;
use crate::backend::{
    Abilities, AcquireAll, Acquired, AllAcquired, Cause, Claim, ClockOffset, EachReleased, Fault,
    Found, FoundersList, FoundersOffer, LockBackend, MemorySince, QuorumMember, Release,
    ReleaseAll, Reply, Witness,
};
use crate::error::{NodeError, NodeErrorKind};
use crate::fencing::FencingToken;
use crate::owner::Owner;

const NAMES: [&str; 5] = ["n0", "n1", "n2", "n3", "n4"];

#[derive(Clone)]
pub(super) struct Wire {
    pub(super) world: Arc<World>,
    pub(super) process: usize,
    node: usize,
    memory_since: Arc<Mutex<Option<MemorySince>>>,
    /// When the releases behind unanswered acquires land.
    behind: Arc<Mutex<HashMap<Owner, Tick>>>,
    pub(super) watch: Watch,
}

impl Wire {
    pub(super) fn new(world: Arc<World>, process: usize, node: usize) -> Self {
        let (memory_since, behind) = (Arc::default(), Arc::default());
        Self { world, process, node, memory_since, behind, watch: Watch::default() }
    }

    /// Sends a command and waits for what becomes of it. A node that does not know its script is
    /// told the text, ahead of it that of the script that follows.
    pub(super) async fn call(
        &self,
        command: Command,
        within: Duration,
    ) -> Result<(Answer, bool), Fault> {
        let gives_up = self.world.now().saturating_add(millis(within));
        let result = match self.send(&command, By::Digest, gives_up).await {
            Ok((Answer::NoScript, was_cut)) => {
                if let Some(follower) = command.follower() {
                    drop(self.send(&follower, By::Text, gives_up).await);
                }
                let again = self.send(&command, By::Text, gives_up).await;
                again.map(|(answer, again)| (answer, again || was_cut))
            }
            result => result,
        };
        if result.is_err() {
            let failed = match &command {
                Command::Release(claim) | Command::Leave(claim) => std::slice::from_ref(claim),
                Command::ReleaseAll(claims) => claims,
                _ => &[],
            };
            for claim in failed {
                self.world.state().witness.departed.failed(&claim.owner, self.node);
            }
        }
        result
    }

    /// Sends a command once. It goes its way though nobody waits.
    async fn send(
        &self,
        command: &Command,
        by: By,
        gives_up: Tick,
    ) -> Result<(Answer, bool), Fault> {
        let world = &self.world;
        if world.is_over() {
            return Err(self.denied());
        }
        let connection = self.connection(command);
        self.connected(connection, command, gives_up).await?;
        // A process that is held up between its look at the clock and the command.
        let leaves = self.runs().await;
        let (subscription, course) = world.send(connection, (command, by), leaves);
        let (seen, end) = self.seen(course, gives_up);
        if end == End::Silence {
            self.clean_up(command, course, seen);
        }
        if seen == NEVER {
            std::future::pending::<()>().await;
        }
        world.sleep_until(seen).await;
        if !matches!(end, End::Answered(_)) {
            world.state().network.discard(connection);
        }
        match end {
            End::Answered(_) => {
                let answer = world.answer(subscription, seen);
                let (answer, card) = answer.unwrap_or_else(|| unreachable!("it has landed"));
                self.remember(&card);
                match answer {
                    Answer::Denied => Err(self.denied()),
                    Answer::Failed(why) => {
                        world.report(&format!("a script failed: {why}"));
                        Err(self.fault(NodeErrorKind::Protocol, true))
                    }
                    answer => Ok((answer, course.was_cut)),
                }
            }
            End::Broken(_) => Err(self.fault(NodeErrorKind::Unreachable, true)),
            End::Refused(_) => Err(self.fault(NodeErrorKind::Unreachable, false)),
            End::Silence => Err(self.fault(NodeErrorKind::NoReply, true)),
        }
    }

    /// Waits until there is a connection. Whoever makes one, it is made for all, and goes on when
    /// nobody waits for it any more.
    async fn connected(
        &self,
        connection: Connection,
        command: &Command,
        gives_up: Tick,
    ) -> Result<(), Fault> {
        let now = self.runs().await;
        let Some(connect) = self.world.connect(connection, command, now) else { return Ok(()) };
        let looks = self.world.runs_at(self.process, connect.ends.min(gives_up).max(now));
        if looks == NEVER {
            std::future::pending::<()>().await;
        }
        self.world.sleep_until(looks).await;
        match connect.is_good {
            _ if connect.ends > looks => Err(self.fault(NodeErrorKind::NoReply, false)),
            false => Err(self.fault(NodeErrorKind::Unreachable, false)),
            true => Ok(()),
        }
    }

    /// When the process runs, from now on. One that has ended never gets any further.
    async fn runs(&self) -> Tick {
        let runs = self.world.runs_at(self.process, self.world.now());
        if runs == NEVER {
            std::future::pending::<()>().await;
        }
        runs
    }

    fn connection(&self, command: &Command) -> Connection {
        let is_for_renewals = matches!(command, Command::Renew(_));
        Connection { process: self.process, node: self.node, is_for_renewals }
    }

    /// When the process learns how the command ended, and how. What came while it was held up is
    /// found before the timer that went off meanwhile.
    fn seen(&self, course: Course, gives_up: Tick) -> (Tick, End) {
        let (End::Answered(at) | End::Broken(at) | End::Refused(at)) = course.end else {
            return (self.world.runs_at(self.process, gives_up), End::Silence);
        };
        let looks = self.world.runs_at(self.process, at.min(gives_up));
        if at <= looks { (looks, course.end) } else { (looks, End::Silence) }
    }

    /// What the contract of a backend asks: a release behind an acquire without an answer, on the
    /// same connection. It is lost where the acquire was.
    fn clean_up(&self, command: &Command, course: Course, seen: Tick) {
        if course.lands == NEVER || seen == NEVER {
            return;
        }
        let behind = match command {
            Command::Acquire(claim) => vec![Command::Release(claim.clone())],
            Command::AcquireAll(claims) => claims.iter().cloned().map(Command::Release).collect(),
            Command::Join(entry) => vec![Command::Leave(entry.claim.clone())],
            Command::Rotate { held, next, .. } => {
                vec![Command::Leave(next.claim.clone()), Command::Release(held.clone())]
            }
            Command::Downgrade { held, next } => {
                vec![Command::Release(next.clone()), Command::Release(held.clone())]
            }
            _ => return,
        };
        let send = |after, next| self.world.send_behind(self.node, next, seen, after);
        let lands = behind.into_iter().fold(course.lands, send);
        if let Command::Acquire(claim) = command {
            self.behind.lock().unwrap().insert(claim.owner.clone(), lands);
        }
    }

    /// Every answer tells who the server is, and for how long others have watched it.
    fn remember(&self, card: &Card) {
        let mut memory_since = self.memory_since.lock().unwrap();
        let run_id: Arc<str> = format!("{}/{}", NAMES[self.node], card.losses).into();
        let cause = match &*memory_since {
            Some(known) if known.run_id == run_id => return,
            Some(_) => Cause::Restarted,
            None => Cause::Started,
        };
        let witness = card.founders.as_deref().and_then(Witness::find);
        let watched = witness.filter(|witness| witness.run_id == run_id);
        let watched_for = watched.map_or(Duration::ZERO, |witness| witness.watched_for);
        let since = self.world.moment(self.world.now()).minus(watched_for);
        *memory_since = Some(MemorySince::new(run_id, since, cause));
    }

    fn denied(&self) -> Fault {
        Fault { is_final: true, ..self.fault(NodeErrorKind::NoPermission, false) }
    }

    fn fault(&self, kind: NodeErrorKind, is_unknown: bool) -> Fault {
        let node = NodeError::new(NAMES[self.node], kind, "");
        Fault { nodes: vec![node], is_unknown, is_final: false }
    }

    /// Renews leases that one command renews together.
    async fn renew_alike(
        &self,
        claims: Vec<Claim>,
        within: Duration,
    ) -> Result<Vec<Option<Found>>, Fault> {
        if claims.is_empty() {
            return Ok(Vec::new());
        }
        match self.call(Command::Renew(claims), within).await? {
            (Answer::Renewed(found), _) => Ok(found),
            (other, _) => unreachable!("{other:?}"),
        }
    }

    async fn find(&self, command: Command, within: Duration) -> Result<(Found, bool), Fault> {
        match self.call(command, within).await? {
            (Answer::Found(found), was_cut) => Ok((found, was_cut)),
            (other, _) => unreachable!("{other:?}"),
        }
    }
}

impl LockBackend for Wire {
    fn acquire<'a>(&'a self, claim: &'a Claim, within: Duration) -> Reply<'a, Acquired> {
        Box::pin(async move {
            let lands = self.behind.lock().unwrap().get(&claim.owner).copied();
            if lands.is_some_and(|lands| self.world.now() <= lands) {
                return Err(self.fault(NodeErrorKind::Refused, false));
            }
            match self.call(Command::Acquire(claim.clone()), within).await? {
                (Answer::Acquired(mut acquired), is_cut) => {
                    let (Acquired::Granted { was_cut, .. } | Acquired::Refused { was_cut, .. }) =
                        &mut acquired;
                    *was_cut = is_cut;
                    Ok(acquired)
                }
                (other, _) => unreachable!("{other:?}"),
            }
        })
    }

    fn renew<'a>(&'a self, claims: &'a [Claim], within: Duration) -> Reply<'a, Vec<Option<Found>>> {
        Box::pin(async move {
            // As the backend that ships does, one command for each sort.
            let of = |is_shared| {
                let claims = claims.iter().filter(|claim| claim.kind.is_shared() == is_shared);
                claims.cloned().collect::<Vec<_>>()
            };
            let mut exclusive = self.renew_alike(of(false), within).await?.into_iter();
            let mut shared = self.renew_alike(of(true), within).await?.into_iter();
            let next = |claim: &Claim| {
                if claim.kind.is_shared() { shared.next() } else { exclusive.next() }
            };
            Ok(claims.iter().map(next).map(Option::flatten).collect())
        })
    }

    fn release<'a>(&'a self, release: Release<'a>, within: Duration) -> Reply<'a, Found> {
        let Release { claim, give_back, may_be_queued, retain, .. } = release;
        let command = match (retain, give_back) {
            (Some(left), _) => Command::Retain(claim.clone(), left),
            _ if may_be_queued => Command::Leave(claim.clone()),
            (None, Some(tokens)) => Command::GiveBack(claim.clone(), tokens),
            (None, None) => Command::Release(claim.clone()),
        };
        Box::pin(self.free(command, claim, within))
    }

    fn raise<'a>(
        &'a self,
        claim: &'a Claim,
        fencing_token: FencingToken,
        within: Duration,
    ) -> Reply<'a, Found> {
        let command = Command::Raise(claim.clone(), fencing_token);
        Box::pin(async move { Ok(self.find(command, within).await?.0) })
    }

    fn verify(&self, _: Duration) -> Reply<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn abilities(&self) -> Abilities<'_> {
        let fifo_queue = self.world.plan.line.is_some().then_some(self as _);
        Abilities {
            fifo_queue,
            acquire_all: Some(self),
            release_all: Some(self),
            downgrade: Some(self),
            has_permits: true,
            ..Abilities::default()
        }
    }
}

impl AcquireAll for Wire {
    fn reaches(&self, _: &[Claim]) -> bool {
        true
    }

    fn acquire_all<'a>(&'a self, claims: &'a [Claim], within: Duration) -> Reply<'a, AllAcquired> {
        Box::pin(async move {
            match self.call(Command::AcquireAll(claims.to_vec()), within).await? {
                (Answer::AllAcquired(mut found), is_cut) => {
                    let (AllAcquired::Granted { was_cut, .. }
                    | AllAcquired::Refused { was_cut, .. }) = &mut found;
                    *was_cut = is_cut;
                    Ok(found)
                }
                (other, _) => unreachable!("{other:?}"),
            }
        })
    }
}

impl ReleaseAll for Wire {
    fn reaches(&self, releases: &[Release<'_>]) -> bool {
        releases.iter().all(Release::is_plain)
    }

    fn release_all<'a>(
        &'a self,
        releases: &'a [Release<'a>],
        within: Duration,
    ) -> EachReleased<'a> {
        Box::pin(self.free_all(releases, within))
    }
}

impl QuorumMember for Wire {
    fn name(&self) -> &str {
        NAMES[self.node]
    }

    fn memory_since(&self) -> Option<MemorySince> {
        self.memory_since.lock().unwrap().clone()
    }

    /// The clocks of simulated servers are off by up to a minute from the beginning: the guard is
    /// told otherwise.
    fn clock_offset(&self) -> Option<ClockOffset> {
        Some(ClockOffset { low: 0, high: 0, at: self.world.moment(self.world.now()) })
    }

    fn founders<'a>(
        &'a self,
        _: &'a str,
        offer: Option<FoundersOffer>,
        within: Duration,
    ) -> Reply<'a, FoundersList> {
        let command = Command::Founders(offer);
        Box::pin(async move {
            match self.call(command, within).await? {
                (Answer::Founders(list), _) => Ok(list),
                (other, _) => unreachable!("{other:?}"),
            }
        })
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire")
            .field("process", &self.process)
            .field("node", &self.node)
            .finish_non_exhaustive()
    }
}
