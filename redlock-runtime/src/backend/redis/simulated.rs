//! What a node sends for each command, and what it reads in the reply, without a connection: for
//! the servers that tests simulate.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use deadpool_redis::redis::aio::ConnectionLike;
use deadpool_redis::redis::{RedisError, RedisResult, Value};

use super::commands::exclusive::batch;
use super::commands::exclusive::release_hint::{self, HintReply};
use super::commands::exclusive::{
    self, acquire_all, enqueue, nudge, raise, release, release_all, renew, rotate,
};
use super::commands::reply::Timed;
use super::commands::{Part, ScriptCall, by_kind, shared};
use super::connection::diagnose;
use super::founders;
use super::pubsub::{NOBODY, queue_signals};
use crate::backend::{
    Acquired, AllAcquired, Claim, Downgraded, Enqueued, Found, FoundersList, FoundersOffer, Look,
    QueueSignal, Release, Rotated, TokensUsed,
};
use crate::error::NodeError;
use crate::fencing::FencingToken;

/// The call of a script, and how its reply is read.
pub(crate) struct SimulatedCall<T> {
    call: ScriptCall,
    decode: Decode<T>,
}

type Decode<T> = Box<dyn Fn(&Value) -> Option<T>>;

/// What a simulated server replied.
pub(crate) enum SimulatedReply<T> {
    Answer(T),
    /// The server does not know the script, and has done nothing.
    NoScript,
    Error(NodeError),
    /// Not an answer of the script.
    Nonsense(Value),
}

impl<T: 'static> SimulatedCall<T> {
    fn new(call: ScriptCall, decode: impl Fn(&Value) -> Option<T> + 'static) -> Self {
        Self { call, decode: Box::new(decode) }
    }

    /// Calls a server that answers at once: by the digest of the script, or by its text.
    pub(crate) fn ask(
        &self,
        server: &mut (impl ConnectionLike + Send),
        is_by_text: bool,
    ) -> SimulatedReply<T> {
        let invocation = self.call.invocation();
        let reply = if is_by_text {
            at_once(invocation.run_text(server)).map(Some)
        } else {
            at_once(invocation.run_known(server))
        };
        self.read(reply)
    }

    /// As [`ask`](Self::ask), in a batch of its own where the call can be part of one.
    pub(crate) fn ask_in_batch(
        &self,
        server: &mut (impl ConnectionLike + Send),
    ) -> SimulatedReply<T> {
        let Some(part) = self.call.part() else { return self.ask(server, false) };
        let batch = batch::invocation(&[part]);
        let reply = match at_once(batch.run_known(server)) {
            Ok(Some(reply)) => {
                batch::decode(reply, 1).expect("the answer of a batch").pop().flatten()
            }
            Ok(None) => None,
            Err(error) => return self.read(Err(error)),
        };
        match reply {
            Some(answer) => self.read(Ok(Some(answer))),
            None => self.ask(server, false),
        }
    }

    fn read(&self, reply: RedisResult<Option<Value>>) -> SimulatedReply<T> {
        match reply {
            Ok(Some(value)) => match (self.decode)(&value) {
                Some(answer) => SimulatedReply::Answer(answer),
                None => SimulatedReply::Nonsense(value),
            },
            Ok(None) => SimulatedReply::NoScript,
            Err(error) => SimulatedReply::Error(node_error(&error)),
        }
    }

    /// Is another script made known before this one?
    pub(crate) fn has_follower(&self) -> bool {
        self.call.invocation().follower().is_some()
    }

    /// Makes the follower of the script known.
    pub(crate) fn introduce(&self, server: &mut (impl ConnectionLike + Send)) {
        if let Some(follower) = self.call.invocation().follower() {
            // What it replies does not matter.
            let _ = at_once(follower.run_text(server));
        }
    }
}

/// The answers to the releases, and those to the acquires.
pub(crate) type BatchAnswers = (Vec<Option<(Found, bool)>>, Vec<Option<Acquired>>);

/// The answers to releases and acquires that come in one batch, in this order; `None`: it has to be
/// asked by itself.
pub(crate) fn ask_batch(
    server: &mut (impl ConnectionLike + Send),
    releases: &[SimulatedCall<(Found, bool)>],
    acquires: &[SimulatedCall<Acquired>],
) -> BatchAnswers {
    let calls = releases.iter().map(|release| &release.call);
    let calls = calls.chain(acquires.iter().map(|acquire| &acquire.call));
    let parts: Vec<&Part> = calls.filter_map(ScriptCall::part).collect();
    let reply = at_once(batch::invocation(&parts).run(server));
    let answers = batch::decode(reply.expect("a reply"), parts.len()).expect("all answers");
    let (first, then) = answers.split_at(releases.len());
    let first =
        releases.iter().zip(first).map(|(release, answer)| (release.decode)(answer.as_ref()?));
    let then =
        acquires.iter().zip(then).map(|(acquire, answer)| (acquire.decode)(answer.as_ref()?));
    (first.collect(), then.collect())
}

fn node_error(error: &RedisError) -> NodeError {
    diagnose("simulated", error).error
}

fn at_once<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("a simulated server replies at once"),
    }
}

fn untimed<T>(decode: fn(&Value) -> Option<Timed<T>>) -> impl Fn(&Value) -> Option<T> {
    move |value| decode(value).map(|answer| answer.found)
}

pub(crate) fn acquire(claim: &Claim) -> SimulatedCall<Acquired> {
    let (call, decode) = by_kind::acquire(claim);
    SimulatedCall::new(call, untimed(decode))
}

pub(crate) fn acquire_all(claims: &[Claim]) -> SimulatedCall<AllAcquired> {
    let count = claims.len();
    let decode = move |value: &Value| acquire_all::decode(value, count).map(|answer| answer.found);
    SimulatedCall::new(acquire_all::call(claims), decode)
}

pub(crate) fn downgrade(held: &Claim, next: &Claim) -> SimulatedCall<Downgraded> {
    let decode = untimed(shared::downgrade::decode);
    SimulatedCall::new(shared::downgrade::call(held, next), decode)
}

pub(crate) fn raise(claim: &Claim, fencing_token: FencingToken) -> SimulatedCall<Found> {
    SimulatedCall::new(by_kind::raise(claim, fencing_token), raise::decode)
}

pub(crate) fn renew(claims: &[Claim]) -> SimulatedCall<Vec<Found>> {
    let count = claims.len();
    let decode = move |value: &Value| renew::decode(value, count).map(|answer| answer.found);
    // All of one kind here; the route sorts them.
    let is_shared = claims.iter().any(|claim| claim.kind.is_shared());
    let call = if is_shared {
        shared::renew::call(&claims.iter().collect::<Vec<_>>())
    } else {
        renew::call(claims)
    };
    SimulatedCall::new(call, decode)
}

/// `true`: the lock is not free, and `channel` will be notified of a release.
pub(crate) fn hint(claim: &Claim, channel: &str) -> SimulatedCall<bool> {
    let decode = |value: &Value| release_hint::decode(value).map(|noted| noted != HintReply::Free);
    SimulatedCall::new(release_hint::call(claim, channel), decode)
}

/// What a release found, and whether the lock was handed over.
pub(crate) fn release(what: Release<'_>, has_queue: bool) -> SimulatedCall<(Found, bool)> {
    SimulatedCall::new(by_kind::release(what, has_queue), release::decode)
}

/// What the releases of several locks found, and whether each was handed over.
pub(crate) fn release_all(releases: &[Release<'_>]) -> SimulatedCall<Vec<(Found, bool)>> {
    let count = releases.len();
    let decode = move |value: &Value| release_all::decode(value, count);
    SimulatedCall::new(release_all::call(releases), decode)
}

/// `channel`: where the owner can be signalled.
pub(crate) fn enqueue(
    claim: &Claim,
    reserve: u32,
    channel: Option<&str>,
) -> SimulatedCall<Enqueued> {
    let call = by_kind::enqueue(claim, reserve, channel.unwrap_or(NOBODY));
    SimulatedCall::new(call, untimed(enqueue::decode))
}

pub(crate) fn look(claim: &Claim, reserve: u32, look: Look) -> SimulatedCall<Enqueued> {
    SimulatedCall::new(by_kind::look(claim, reserve, look), untimed(enqueue::decode))
}

pub(crate) fn rotate(
    held: &Claim,
    tokens: TokensUsed,
    next: &Claim,
    reserve: u32,
    channel: Option<&str>,
) -> SimulatedCall<Rotated> {
    let call = rotate::call(held, tokens, next, reserve, channel.unwrap_or(NOBODY));
    SimulatedCall::new(call, untimed(rotate::decode))
}

pub(crate) fn nudge(claim: &Claim) -> SimulatedCall<(Option<Duration>, u64)> {
    SimulatedCall::new(nudge::call(&claim.key, &claim.owner), nudge::decode)
}

/// Writes the offered founders, if any, and reads the list that is there.
pub(crate) fn founders(
    server: &mut (impl ConnectionLike + Send),
    key: &str,
    offer: Option<&FoundersOffer>,
) -> Result<FoundersList, NodeError> {
    let answer = at_once(founders::call(server, key, offer));
    answer.map(|(list, _)| list).map_err(|error| node_error(&error))
}

/// What a message tells those who stand in a queue, or asks them: whether they still wait. `None`:
/// it says something else.
pub(crate) fn signalled(message: &[u8]) -> Option<Vec<(String, Option<QueueSignal>)>> {
    queue_signals(message)
}

/// The scripts that ship.
pub(crate) fn scripts() -> impl Iterator<Item = &'static str> {
    exclusive::scripts().into_iter().chain(shared::scripts())
}
