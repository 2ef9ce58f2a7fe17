//! The commands that differ between the kinds of locks.

use deadpool_redis::redis::Value;

use super::reply::Timed;
use super::{ScriptCall, exclusive, shared};
use crate::backend::{Acquired, Claim, Look, Release};
use crate::fencing::FencingToken;
use crate::kind::Kind;

/// How a reply is read.
type Decode<T> = fn(&Value) -> Option<Timed<T>>;

/// The command, and how its reply is read.
pub(crate) fn acquire(claim: &Claim) -> (ScriptCall, Decode<Acquired>) {
    match claim.kind {
        Kind::Exclusive => (exclusive::acquire::call(claim), exclusive::acquire::decode),
        Kind::Read | Kind::Permits(_) => (shared::acquire::call(claim), shared::acquire::decode),
    }
}

/// `has_queue`: it may use the queue of the lock.
pub(crate) fn release(release: Release<'_>, has_queue: bool) -> ScriptCall {
    match release.claim.kind {
        Kind::Exclusive => exclusive::release::call(release, has_queue),
        Kind::Read | Kind::Permits(_) => shared::release::call(release, has_queue),
    }
}

pub(crate) fn raise(claim: &Claim, fencing_token: FencingToken) -> ScriptCall {
    match claim.kind {
        Kind::Exclusive => exclusive::raise::call(claim, fencing_token),
        Kind::Read | Kind::Permits(_) => shared::raise::call(claim, fencing_token),
    }
}

pub(crate) fn enqueue(claim: &Claim, reserve: u32, channel: &str) -> ScriptCall {
    match claim.kind {
        Kind::Exclusive => exclusive::enqueue::call(claim, reserve, channel),
        Kind::Read | Kind::Permits(_) => shared::enqueue::call(claim, channel),
    }
}

pub(crate) fn look(claim: &Claim, reserve: u32, look: Look) -> ScriptCall {
    match claim.kind {
        Kind::Exclusive => exclusive::enqueue::look(claim, reserve, look),
        Kind::Read | Kind::Permits(_) => shared::enqueue::look(claim, look),
    }
}
