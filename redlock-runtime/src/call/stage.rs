//! The stages of a locked call, independent of the type of its body.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tracing::Span;

use super::spec::{Client, Spec};
use crate::acquire;
use crate::acquire::{Acquiring, Order};
use crate::after_completion::after_completion;
use crate::body::reentrancy::lookup;
use crate::body::{Entering, HoldLink, Reentry, Watch, span};
use crate::engine::Engine;
use crate::error::LockError;
use crate::handoff::Ownership;
use crate::hold::Hold;
use crate::key::{Key, LockKey, Rendered};
use crate::kind::Kind;
use crate::options::Policy;
use crate::release;
use crate::release::ReleaseFuture;

mod inside;
mod several;

/// How a panic names the future of a locked function.
pub(super) const WHAT: &str = "a `#[redis_lock]` future";

/// How far a call has come. The future of every locked call holds one stage, boxed.
pub(crate) enum Stage {
    /// The call was not polled yet.
    Start {
        spec: Spec,
        key: Key,
        client: Client,
    },
    Acquiring {
        spec: Spec,
        future: Acquiring,
    },
    /// The call waits until other calls inside of the hold are done.
    Entering {
        spec: Spec,
        entering: Entering,
    },
    Holding {
        awaits_release: bool,
        watch: Watch,
        span: Span,
        /// `None`: the call re-entered, and an outer call owns the lock.
        ownership: Option<Ownership>,
        /// The turn of a call that re-entered.
        _reentry: Option<Reentry>,
    },
    Releasing {
        hold: Arc<Hold>,
        future: ReleaseFuture,
    },
    Done,
}

impl Stage {
    /// Acquires the lock, then takes one step of the body if the lease allows it.
    pub(crate) fn poll_body<T>(
        &mut self,
        cx: &mut Context<'_>,
        step: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<Result<T, LockError>> {
        ready!(self.poll_acquire(cx))?;
        let Self::Holding { watch, span, .. } = self else { after_completion(WHAT) };
        watch.step(cx, |cx| span.in_scope(|| step(cx)))
    }

    /// Ready when the lock is held, or when acquiring it failed.
    fn poll_acquire(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LockError>> {
        loop {
            match self {
                Self::Holding { .. } => return Poll::Ready(Ok(())),
                Self::Start { spec, key, client } => {
                    let (spec, key, client) = (*spec, key.take(), client.take());
                    *self = Self::Done;
                    self.begin(spec, key, client).map_err(|error| error.about(spec.template))?;
                }
                Self::Acquiring { spec, future } => {
                    let (granted, spec) = (ready!(Pin::new(future).poll(cx)), *spec);
                    *self = Self::Done;
                    self.begin_holding(spec, granted?);
                }
                Self::Entering { .. } => ready!(self.poll_entering(cx))?,
                Self::Releasing { .. } | Self::Done => after_completion(WHAT),
            }
        }
    }

    /// Drops the body, or what is left of it: its destructors see the lease that it had.
    pub(crate) fn drop_body(&mut self, drop: impl FnOnce()) {
        match self {
            Self::Holding { watch, .. } => watch.drop_body(drop),
            _ => drop(),
        }
    }

    /// The body is done: begins the release. Returns whether the caller has to wait, until the
    /// release has left or was answered. `may_wait`: the output can be kept until then.
    pub(crate) fn begin_release(&mut self, may_wait: bool) -> bool {
        let Self::Holding { awaits_release, watch, ownership, .. } = self else {
            after_completion(WHAT)
        };
        let release = ownership.take().and_then(|ownership| match awaits_release {
            true => ownership.release_after_body(),
            false => ownership.release_unawaited(may_wait),
        });
        let has_to_wait = release.is_some();
        let releasing = |future| Self::Releasing { hold: Arc::clone(watch.hold()), future };
        *self = release.map_or(Self::Done, releasing);
        has_to_wait
    }

    /// Ready when the release has left, or, with `release = "await"`, when it was answered; or when
    /// the background continues it.
    pub(crate) fn poll_release(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Self::Releasing { hold, future } = self {
            let answer = ready!(Pin::new(future).poll(cx));
            release::report(hold, answer);
        }
        *self = Self::Done;
        Poll::Ready(())
    }
}

/// The transitions write the next stage where it stays: a stage is large.
impl Stage {
    fn begin(&mut self, spec: Spec, key: Key, client: Client) -> Result<(), LockError> {
        let rendered = key.0?;
        let redlock = client.resolve()?;
        let engine = redlock.engine();
        engine.check_process()?;
        let min_hold = spec.stated.min_hold.unwrap_or_default();
        let kind = engine.check_kind(spec.kind()?, min_hold)?;
        // Checked in a call that re-enters as well: it may be one of another function, with other
        // options.
        let policy = spec.policy(redlock.policy())?;
        let text = match rendered {
            Rendered::One(text) => text,
            Rendered::Several(names) => {
                return self.begin_several(spec, &names, kind, &redlock, policy);
            }
        };
        // A text that is the key of a hold has been checked.
        if let Some(held) = lookup::find(engine.id, &text) {
            return self.begin_within(spec, held, kind, &text, engine, policy);
        }
        if spec.is_reentrant {
            lookup::check_not_ended(engine.id, std::iter::once(&*text))?;
        }
        let key = LockKey::new(redlock.prefix(), &text)?;
        let order = order(engine, spec, key, kind, policy);
        *self = Self::Acquiring { spec, future: acquire::start(engine, order) };
        Ok(())
    }

    fn begin_holding(&mut self, spec: Spec, ownership: Ownership) {
        let hold = ownership.hold();
        let (link, waited) = (HoldLink::new(Arc::clone(hold)), hold.waited());
        self.hold_for_body(spec, link, waited, Some(ownership), None);
    }

    fn hold_for_body(
        &mut self,
        spec: Spec,
        link: Arc<HoldLink>,
        waited: Duration,
        ownership: Option<Ownership>,
        reentry: Option<Reentry>,
    ) {
        let span = span(link.hold(), spec.template, waited);
        let (awaits_release, watch) = (spec.awaits_release, Watch::new(link));
        *self = Self::Holding { awaits_release, watch, span, ownership, _reentry: reentry };
    }
}

fn order(engine: &Engine, spec: Spec, key: LockKey, kind: Kind, policy: Policy) -> Order {
    let Spec { template, skips_busy, .. } = spec;
    let shutdowns_before = engine.shutdowns().count();
    Order { template, key, kind, policy, skips_busy, shutdowns_before, is_leader: false }
}
