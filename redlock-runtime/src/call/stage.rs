//! The stages of a locked call, independent of the type of its body.

use std::borrow::Cow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tracing::Span;

use super::after_completion::after_completion;
use super::spec::{Client, Spec};
use crate::acquire;
use crate::acquire::{Acquiring, Order};
use crate::body::{Entering, Held, HoldLink, Reentry, Watch, reentrancy};
use crate::client::Redlock;
use crate::error::LockError;
use crate::handoff::Ownership;
use crate::hold::Hold;
use crate::key;
use crate::key::{Key, LockKey, Rendered};
use crate::kind::Kind;
use crate::options::Policy;
use crate::release;
use crate::release::ReleaseFuture;

/// How far a call has come. The future of every locked call holds one stage, boxed.
#[derive(Debug)]
pub(crate) enum Stage {
    /// The call was not polled yet.
    Start {
        spec: Spec,
        key: Key,
        client: Client,
    },
    Acquiring {
        spec: Spec,
        answer: Acquiring,
    },
    /// The call waits until other calls inside of the hold are done.
    Entering {
        spec: Spec,
        entering: Entering,
    },
    Holding {
        spec: Spec,
        watch: Watch,
        span: Span,
        /// `None`: the call re-entered, and an outer call owns the lock.
        ownership: Option<Ownership>,
        /// The turn of a call that re-entered.
        _reentry: Option<Reentry>,
    },
    Releasing {
        hold: Arc<Hold>,
        answer: ReleaseFuture,
    },
    Done,
}

impl Stage {
    pub(crate) fn new(spec: Spec, key: Key, client: Client) -> Self {
        Self::Start { spec, key, client }
    }

    /// Ready when the lock is held, or when acquiring it failed.
    pub(crate) fn poll_acquire(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LockError>> {
        loop {
            match self {
                Self::Holding { .. } => return Poll::Ready(Ok(())),
                Self::Start { .. } => {
                    let Self::Start { spec, key, client } = std::mem::replace(self, Self::Done)
                    else {
                        after_completion()
                    };
                    *self = begin(spec, key, client)?;
                }
                Self::Acquiring { spec, answer } => {
                    let granted = ready!(Pin::new(answer).poll(cx));
                    let spec = *spec;
                    *self = Self::Done;
                    let ownership = granted?;
                    *self = hold(spec, ownership);
                }
                Self::Entering { spec, entering } => {
                    let entered = ready!(Pin::new(entering).poll(cx));
                    let spec = *spec;
                    *self = Self::Done;
                    *self = reenter(spec, entered?);
                }
                Self::Releasing { .. } | Self::Done => after_completion(),
            }
        }
    }

    /// One step of the body, if the lease allows it.
    pub(crate) fn step<T>(
        &mut self,
        cx: &mut Context<'_>,
        step: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<Result<T, LockError>> {
        let Self::Holding { watch, span, .. } = self else { after_completion() };
        watch.step(cx, |cx| span.in_scope(|| step(cx)))
    }

    /// The body is done: begins the release. Returns whether the caller has to wait for it.
    /// `may_wait`: the output can be kept until then.
    pub(crate) fn begin_release(&mut self, may_wait: bool) -> bool {
        let Self::Holding { spec, watch, ownership, .. } = std::mem::replace(self, Self::Done)
        else {
            after_completion()
        };
        let Some(ownership) = ownership else { return false };
        let answer = if spec.awaits_release {
            ownership.release_after_body()
        } else {
            ownership.release_in_background(may_wait)
        };
        let Some(answer) = answer else { return false };
        *self = Self::Releasing { hold: Arc::clone(watch.hold()), answer };
        true
    }

    /// Ready when the release is answered, or when the background continues it.
    pub(crate) fn poll_release(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Self::Releasing { hold, answer } = self {
            let answer = ready!(Pin::new(answer).poll(cx));
            release::report(hold, answer);
        }
        *self = Self::Done;
        Poll::Ready(())
    }

    /// The body was stopped: the lock is released in the background if it is still held.
    pub(crate) fn abandon(&mut self) {
        *self = Self::Done;
    }
}

fn begin(spec: Spec, key: Key, client: Client) -> Result<Stage, LockError> {
    let rendered = key.0?;
    let redlock = client.resolve()?;
    let engine = redlock.engine();
    engine.check_process()?;
    let min_hold = spec.min_hold.unwrap_or_default();
    let kind = engine.check_kind(spec.kind()?, min_hold)?;
    let text = match rendered {
        Rendered::One(text) => text,
        Rendered::Several(names) => {
            kind.check_several(min_hold)?;
            return begin_several(spec, &names, &redlock);
        }
    };
    // The key of a hold has been checked before.
    if let Some(held) = reentrancy::find(engine.id, &text) {
        return begin_within(spec, held, kind, &text, &redlock);
    }
    let key = LockKey::new(redlock.prefix(), &text)?;
    let policy = policy(&redlock, spec)?;
    let Spec { template, skips_busy, .. } = spec;
    let answer = acquire::start(engine, Order { template, key, kind, policy, skips_busy });
    Ok(Stage::Acquiring { spec, answer })
}

#[cold]
fn begin_several(
    spec: Spec,
    names: &[Cow<'static, str>],
    redlock: &Redlock,
) -> Result<Stage, LockError> {
    let engine = redlock.engine();
    let (key, further) = key::in_order(redlock.prefix(), names)?;
    let names = std::iter::once(&key).chain(&further).map(LockKey::name);
    let kind = Kind::Exclusive;
    if let Some(held) = reentrancy::find_all(engine.id, names)? {
        return begin_within(spec, held, kind, key.name(), redlock);
    }
    let policy = policy(redlock, spec)?;
    let Spec { template, skips_busy, .. } = spec;
    let order = Order { template, key, kind, policy, skips_busy };
    let answer = if further.is_empty() {
        acquire::start(engine, order)
    } else {
        acquire::start_all(engine, order, further)
    };
    Ok(Stage::Acquiring { spec, answer })
}

/// The task holds what the call wants.
fn begin_within(
    spec: Spec,
    held: Held,
    kind: Kind,
    key: &str,
    redlock: &Redlock,
) -> Result<Stage, LockError> {
    if !spec.is_reentrant {
        return Err(LockError::AlreadyHeld { key: key.to_owned(), with: Vec::new() });
    }
    held.check_kind(kind)?;
    if let Some(reentry) = held.enter_now() {
        return Ok(reenter(spec, reentry));
    }
    let entering = held.enter(redlock.engine(), policy(redlock, spec)?.wait());
    Ok(Stage::Entering { spec, entering })
}

fn policy(redlock: &Redlock, spec: Spec) -> Result<Policy, LockError> {
    let Spec { expire, wait, max_renew, min_hold, .. } = spec;
    redlock.policy().with(expire, wait, max_renew)?.with_min_hold(min_hold)
}

fn hold(spec: Spec, ownership: Ownership) -> Stage {
    let hold = ownership.hold();
    let span = span(spec, hold, hold.waited);
    let watch = Watch::new(HoldLink::nested(Arc::clone(hold), None));
    Stage::Holding { spec, watch, span, ownership: Some(ownership), _reentry: None }
}

fn reenter(spec: Spec, reentry: Reentry) -> Stage {
    let span = span(spec, reentry.link().hold(), Duration::ZERO);
    let watch = Watch::new(Arc::clone(reentry.link()));
    Stage::Holding { spec, watch, span, ownership: None, _reentry: Some(reentry) }
}

fn span(spec: Spec, hold: &Hold, waited: Duration) -> Span {
    tracing::debug_span!(
        "redlock",
        key = hold.claim.key.name(),
        keys = hold.several_names().map(tracing::field::debug),
        template = spec.template,
        fencing_token = %hold.fencing_token,
        ?waited,
    )
}
