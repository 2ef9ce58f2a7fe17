//! The batch that forms on a connection, and those that were sent.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use deadpool_redis::redis::aio::ConnectionLike;
use deadpool_redis::redis::{RedisError, RedisResult, Value};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::coop::unconstrained;
use tokio::time::timeout;

use super::sent::{BatchReply, Caller, Callers, SentBatch};
use crate::backend::redis::clock::CLOCK;
use crate::backend::redis::commands::exclusive::batch;
use crate::backend::redis::commands::{Part, PartAnswer, Verb};
use crate::backend::redis::connection::diagnose;
use crate::budget::yield_to_others;
use crate::denial::Denial;
use crate::error::NodeErrorKind;
use crate::mutex::Mutex;
use crate::process;
use crate::shield::shielded;

// The number of references to a connection shows how busy it is ([`Batches::references`]).

/// With more references, commands form batches. A batch leaves one turn of the runtime later, which
/// few callers do not make up for.
pub(super) const CROWD: usize = 4;
/// With more references, another command may have to wait for a place on the connection: pools that
/// others have made have 50 of them by default.
pub(super) const FULL: usize = 32;
/// With more references, a release is awaited: what waits for its answer without a caller falls out
/// of the processor's caches, and costs more than the round trip that its caller is spared.
pub(super) const MANY: usize = 448;
/// A batch has at most one member for each 16 references, which is an eighth of the commands on
/// their way: if all left in one or two batches, client and server would wait for each other in
/// turn.
const REFERENCES_PER_MEMBER: usize = 16;
/// A batch may have this many members in any case. A smaller one would cost the server more than
/// that spares.
pub(super) const SMALL: usize = 8;
/// The most members of a batch. Its script takes the server 200 us at most.
pub(super) const LARGEST: usize = 32;
/// For how long a server is waited for that is told the script.
pub(super) const INTRODUCTION: Duration = Duration::from_secs(1);

/// What forms and leaves on a connection.
pub(crate) struct Batches<C> {
    connection: C,
    /// The runtime that drives the connection, and its process.
    home: Handle,
    process: process::ProcessId,
    /// Whether the user of this client is denied the script.
    denial: Denial,
    next: Mutex<NextBatch>,
    /// The number of commands in it, which all others can see without the mutex.
    waiting: AtomicUsize,
}

/// The commands that leave together next.
#[derive(Default)]
struct NextBatch {
    members: VecDeque<Member>,
    next_id: u64,
    /// A task will send it, and tell its watchers.
    has_sender: bool,
    /// To be told when it has left, and all that came before it.
    watchers: Vec<oneshot::Sender<()>>,
}

struct Member {
    id: u64,
    caller: Caller,
}

impl<C: ConnectionLike + Clone + Send + Sync + 'static> Batches<C> {
    /// For a connection that belongs to the runtime of the caller.
    pub(super) fn new(connection: C) -> Self {
        Self {
            connection,
            home: Handle::current(),
            process: process::id(),
            denial: Denial::default(),
            next: Mutex::default(),
            waiting: AtomicUsize::new(0),
        }
    }

    /// Is there a place on the connection for one more release that nobody awaits? `may_join`: it
    /// can be part of a batch.
    pub(super) fn has_room(self: &Arc<Self>, may_join: bool) -> bool {
        let references = self.references();
        references <= FULL || may_join && references <= MANY && self.is_crowded()
    }

    /// Told when all commands that were given to this connection have left, before whatever their
    /// caller does next.
    ///
    /// A command was given to the task that drives the connection, or is in the next batch. That
    /// task is woken, and must run before the caller goes on, computes or blocks: a worker thread
    /// that the caller keeps busy does not run it. Another task, woken later, tells that it did, as
    /// it lets other tasks run first. A second poll of the caller would not prove it: an executor
    /// inside of a task (`LocalSet`, `join!`) polls the caller again without letting others run.
    ///
    /// If no batch forms, that task is a new one: the sender of a batch that left early may run on
    /// another thread, and lets only the tasks there run first.
    pub(crate) fn next_departure(self: &Arc<Self>) -> oneshot::Receiver<()> {
        let (watcher, told) = oneshot::channel();
        let mut next = self.next.lock();
        if next.members.is_empty() {
            drop(next);
            self.home.spawn(tell_after_others(vec![watcher]));
        } else {
            next.watchers.push(watcher);
            self.need_sender(next);
        }
        told
    }

    /// One for the shared connection, one for each command on its way, and one more for each that
    /// has joined a batch; and one for each batch that was sent, and for the task that sends the
    /// next one.
    fn references(self: &Arc<Self>) -> usize {
        Arc::strong_count(self)
    }

    /// Does a command join a batch?
    pub(super) fn is_crowded(self: &Arc<Self>) -> bool {
        self.references() > CROWD && !self.denial.lasts(|| CLOCK.now())
    }

    /// How many members a batch may have now.
    fn largest(self: &Arc<Self>) -> usize {
        (self.references() / REFERENCES_PER_MEMBER).clamp(SMALL, LARGEST)
    }

    fn is_forming(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > 0
    }

    pub(super) fn join(self: &Arc<Self>, part: Part) -> Membership<C> {
        let (answer, told) = oneshot::channel();
        let mut next = self.next.lock();
        next.next_id += 1;
        let id = next.next_id;
        next.members.push_back(Member { id, caller: Caller { part, answer } });
        self.waiting.store(next.members.len(), Ordering::Release);
        if next.members.len() >= self.largest() {
            let sent = self.send(&mut next);
            drop(next);
            self.await_answers(sent);
        } else {
            self.need_sender(next);
        }
        Membership { batches: Arc::clone(self), id, answer: told, is_answered: false }
    }

    fn need_sender(self: &Arc<Self>, mut next: MutexGuard<'_, NextBatch>) {
        let has_sender = std::mem::replace(&mut next.has_sender, true);
        drop(next);
        if !has_sender {
            self.home.spawn(send_soon(BatchSender(Some(Arc::clone(self)))));
        }
    }

    /// Sends the batch that forms, before a command that leaves by itself.
    pub(super) fn send_now(self: &Arc<Self>) {
        if self.is_forming() {
            let sent = self.send(&mut self.next.lock());
            self.await_answers(sent);
        }
    }

    /// Sends what has come so far. Under the mutex: whoever no longer finds its command in the
    /// next batch knows that it has left.
    fn send(self: &Arc<Self>, next: &mut NextBatch) -> Vec<SentBatch> {
        let largest = self.largest();
        let mut sent = Vec::new();
        while !next.members.is_empty() {
            let count = next.members.len().min(largest);
            let mut callers: Vec<Caller> =
                next.members.drain(..count).map(|member| member.caller).collect();
            callers.sort_by_key(|caller| caller.part.verb);
            let parts: Vec<&Part> = callers.iter().map(|caller| &caller.part).collect();
            let invocation = batch::invocation(&parts);
            let mut connection = self.connection.clone();
            let run = async move { invocation.run_known(&mut connection).await };
            let mut reply: BatchReply = Box::pin(run);
            // The first poll puts the command on the connection. It is not bound by the cooperative
            // budget of the caller.
            let first = pin!(unconstrained(reply.as_mut()));
            let at_once = first.poll(&mut Context::from_waker(Waker::noop()));
            sent.push(SentBatch { callers: Callers(callers), reply, at_once });
        }
        self.waiting.store(0, Ordering::Release);
        sent
    }

    /// Outside of the mutex: a runtime that has ended drops its tasks at once, and wakes callers.
    fn await_answers(self: &Arc<Self>, sent: Vec<SentBatch>) {
        for SentBatch { mut callers, mut reply, at_once } in sent {
            let batches = Arc::clone(self);
            self.home.spawn(async move {
                let reply = match at_once {
                    Poll::Ready(reply) => Some(reply),
                    Poll::Pending => poll_fn(|cx| callers.poll_reply(&mut reply, cx)).await,
                };
                let Some(reply) = reply else { return };
                if !batches.settle(callers, reply) {
                    batches.introduce().await;
                }
            });
        }
    }

    /// Tells the server the script. Not with the commands of a batch: a clean-up of one of them may
    /// have come meanwhile, and has to come after it.
    async fn introduce(&self) {
        let (nothing, mut connection) = (batch::invocation(&[]), self.connection.clone());
        // A connection that is silent is not kept for this.
        let told = timeout(INTRODUCTION, nothing.run_text(&mut connection)).await;
        if let Ok(Err(error)) = told {
            self.note_denial(&error);
        }
    }

    /// Stops batches for a while if the server, or a proxy before it, refuses their script. Any
    /// other error would also fail the commands one by one.
    fn note_denial(&self, error: &RedisError) {
        let kind = diagnose("", error).error.kind();
        let is_denied = matches!(
            kind,
            NodeErrorKind::NoPermission | NodeErrorKind::Cluster | NodeErrorKind::Refused
        );
        if is_denied {
            self.denial.denied(CLOCK.now());
        }
    }

    /// Gives each caller its part of `reply`, and sends by itself what the batch has left out.
    /// Returns whether the server knows the script.
    fn settle(self: &Arc<Self>, mut callers: Callers, reply: RedisResult<Option<Value>>) -> bool {
        let is_known = !matches!(reply, Ok(None));
        let was_cut = reply.as_ref().is_err_and(|error| diagnose("", error).may_have_run());
        let left_out = match reply.map(|reply| reply.map(|r| batch::decode(r, callers.0.len()))) {
            Ok(None) => callers.answer(false, std::iter::repeat_with(|| None)),
            Ok(Some(Ok(answers))) => {
                self.denial.allowed();
                callers.answer(false, answers.into_iter().map(|answer| answer.map(Ok)))
            }
            Ok(Some(Err(nonsense))) => {
                // No command is answered with a list of one item: each caller rejects it.
                let nonsense = Value::Array(vec![nonsense]);
                callers.answer(false, std::iter::repeat_with(|| Some(Ok(nonsense.clone()))))
            }
            Err(error) if error.code().is_none() => {
                callers.answer(false, std::iter::repeat_with(|| Some(Err(error.clone()))))
            }
            // The server said why it has not run the script, or a proxy that it failed.
            Err(error) => {
                self.note_denial(&error);
                callers.answer(false, std::iter::repeat_with(|| None))
            }
        };
        for caller in left_out {
            self.send_alone(caller, was_cut);
        }
        is_known
    }

    /// Sends a command that its batch has left out, or may have: `was_cut`. A release leaves at
    /// once, though nobody may poll for its answer, which is not waited for when its caller has
    /// gone. An acquire is sent by its caller, who may have gone, and have begun its clean-up.
    fn send_alone(self: &Arc<Self>, caller: Caller, was_cut: bool) {
        if caller.part.verb == Verb::Acquire {
            shielded(|| drop(caller.answer.send(PartAnswer::Alone { was_cut })));
            return;
        }
        let release = caller.part.by_itself();
        let mut callers = Callers(vec![caller]);
        self.send_now();
        let mut connection = self.connection.clone();
        self.home.spawn(async move {
            let run = async move { release.run(&mut connection).await.map(Some) };
            let mut reply: BatchReply = Box::pin(run);
            if let Some(reply) = poll_fn(|cx| callers.poll_reply(&mut reply, cx)).await {
                callers.answer(was_cut, std::iter::once(reply.transpose()));
            }
        });
    }
}

/// Sends the batch that forms after the callers that run first have joined it.
async fn send_soon<C: ConnectionLike + Clone + Send + Sync + 'static>(mut sender: BatchSender<C>) {
    yield_to_others().await;
    if let Some(batches) = sender.0.take() {
        let (sent, watchers) = {
            let mut next = batches.next.lock();
            next.has_sender = false;
            (batches.send(&mut next), std::mem::take(&mut next.watchers))
        };
        batches.await_answers(sent);
        if !watchers.is_empty() {
            tell_after_others(watchers).await;
        }
    }
}

/// The task that drives the connection may have been woken just now, and runs first.
async fn tell_after_others(watchers: Vec<oneshot::Sender<()>>) {
    yield_to_others().await;
    for watcher in watchers {
        shielded(|| watcher.send(()));
    }
}

/// If its task ends before it has sent the batch, with its runtime, each command leaves by itself.
struct BatchSender<C>(Option<Arc<Batches<C>>>);

impl<C> Drop for BatchSender<C> {
    fn drop(&mut self) {
        if let Some(batches) = self.0.take() {
            let mut next = batches.next.lock();
            let (members, watchers) =
                (std::mem::take(&mut next.members), std::mem::take(&mut next.watchers));
            next.has_sender = false;
            batches.waiting.store(0, Ordering::Release);
            drop(next);
            shielded(|| drop((members, watchers)));
        }
    }
}

/// The command of a caller in the batch that forms, or in one that was sent. If the caller goes
/// away before, its command is not sent.
pub(super) struct Membership<C> {
    batches: Arc<Batches<C>>,
    id: u64,
    answer: oneshot::Receiver<PartAnswer>,
    is_answered: bool,
}

impl<C> Membership<C> {
    pub(super) async fn answer(mut self) -> PartAnswer {
        let answer = (&mut self.answer).await;
        self.is_answered = true;
        // Nobody sent the batch.
        answer.unwrap_or(PartAnswer::Alone { was_cut: false })
    }
}

impl<C> Drop for Membership<C> {
    fn drop(&mut self) {
        // In the child of a fork, another thread of the parent may hold the mutex.
        if self.is_answered || self.batches.process != process::id() {
            return;
        }
        let mut next = self.batches.next.lock();
        if let Ok(place) = next.members.binary_search_by_key(&self.id, |member| member.id) {
            let member = next.members.remove(place);
            self.batches.waiting.store(next.members.len(), Ordering::Release);
            drop(next);
            drop(member);
        }
    }
}
