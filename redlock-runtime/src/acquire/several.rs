//! Several keys: with one command where that is possible and all are free. Otherwise each is
//! acquired by its own wait queue, one after another in the order of keys, and then one hold is
//! made of them.
//!
//! A call that has some of its keys waits for larger ones only, so calls never wait for each other
//! in a circle. Until it has all of them, each key has a hold and renewals of its own.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use super::acquiring::{Acquiring, start};
use super::agreement::{Failed, agree};
use super::at_once::{AtOnce, AtOnceOutcome, Refusal};
use super::attempt::LAST_ATTEMPT;
use super::caller::on_executor;
use super::inside::inside;
use super::observed::CallTime;
use super::one_key::{acquire_one, take};
use super::order::{Acquisition, Order};
use super::{nesting, not_all};
use crate::backend::LockBackend;
use crate::backoff;
use crate::budget;
use crate::clock::Moment;
use crate::engine::Engine;
use crate::error::{LockError, NodeErrorKind};
use crate::handoff::{NotHeld, NotJoined, Ownership, join};
use crate::hold::Terms;
use crate::key::LockKey;
use crate::options::Wait;

/// Begins to acquire the lock of `order`, and those of `further` with it, in the order of keys. The
/// future does nothing before its first poll.
pub(crate) fn start_all(engine: &Arc<Engine>, order: Order, further: Vec<LockKey>) -> Acquiring {
    if further.is_empty() {
        return start(engine, order);
    }
    let own = Arc::clone(engine);
    Acquiring::new(engine, async move {
        budget::spend().await;
        acquire_all(own, order, further).await
    })
}

async fn acquire_all(engine: Arc<Engine>, order: Order, further: Vec<LockKey>) -> Acquisition {
    let (started, wait) = (engine.clock().now(), order.policy.wait());
    let first_and_last = std::iter::once(&order.key).chain(further.last());
    nesting::note_nesting(&engine, order.template, first_and_last, wait);
    let call = order.counted();
    let outer = order.outer_holds(&engine);
    let (terms, end) = (order.terms(started, &outer), order.wait_ends(started));
    let acquire = Box::pin(acquire_each(&engine, &order, &further, terms, end));
    let granted = if outer.is_empty() {
        acquire.await
    } else {
        Box::pin(inside(&engine, &order, &outer, acquire)).await
    };
    call.end(granted.as_ref().map(|ownership| ownership.hold().waited()));
    granted.map_err(|error| nesting::with_holds(&engine, &order, error))
}

/// Acquires all keys for one call, whose wait is over at `end`.
async fn acquire_each(
    engine: &Arc<Engine>,
    order: &Order,
    further: &[LockKey],
    terms: Terms,
    mut end: Moment,
) -> Acquisition {
    let mut is_last = false;
    loop {
        let keys = SeveralKeys::new(engine, order, further, terms, end);
        let mut ownership = Arc::new(keys).acquire().await?;
        if take(engine, &terms, order.key.name(), &mut ownership)? {
            return Ok(ownership);
        }
        if is_last {
            return Err(not_all::not_polled(&order.key));
        }
        let begun = engine.clock().now();
        // There is time for one more attempt in any case, once.
        is_last = begun >= end;
        end = end.max(begun);
    }
}

/// A call that wants several keys, from when it begins, or begins to wait again, until `end`.
pub(super) struct SeveralKeys {
    engine: Arc<Engine>,
    /// In the order of keys.
    orders: Vec<Order>,
    terms: Terms,
    wait: Wait,
    end: Moment,
}

/// Why a call has not got its keys.
enum Ended {
    /// A key was lost while others were waited for. The call begins again; at the end of its wait,
    /// this is its error.
    Lost(LockError),
    Failed(LockError),
}

impl SeveralKeys {
    fn new(
        engine: &Arc<Engine>,
        order: &Order,
        further: &[LockKey],
        terms: Terms,
        end: Moment,
    ) -> Self {
        let wait = order.policy.wait();
        let keys = std::iter::once(&order.key).chain(further);
        let orders = keys.map(|key| Order { key: key.clone(), ..*order }).collect();
        Self { engine: Arc::clone(engine), orders, terms, wait, end }
    }

    async fn acquire(self: Arc<Self>) -> Acquisition {
        self.engine.check_shutdown(self.terms.shutdowns_before, self.orders[0].key.name())?;
        let route = self.engine.route();
        let Some(route) = route else { return self.on_executor(false, None).await };
        match self.at_once(&*route, true).await {
            AtOnceOutcome::Ended(granted) => granted,
            AtOnceOutcome::OneByOne(refusal) => self.on_executor(true, refusal).await,
        }
    }

    /// All of them with one command.
    async fn at_once(&self, route: &dyn LockBackend, is_polled: bool) -> AtOnceOutcome {
        let attempt = AtOnce {
            engine: &self.engine,
            keys: self.orders.iter().map(|order| &order.key).collect(),
            terms: self.terms,
            may_wait: self.wait != Wait::Never,
        };
        attempt.over(route, self.within(), is_polled).await
    }

    /// How long a command for all keys may take.
    fn within(&self) -> Duration {
        let now = self.engine.clock().now();
        self.ends().since(now).min(self.engine.reply_timeout)
    }

    /// When the last command of the call ends.
    fn ends(&self) -> Moment {
        match self.wait {
            Wait::AtMost(_) => self.end.plus(LAST_ATTEMPT),
            Wait::Never => self.end.plus(self.engine.acquire_timeout),
            Wait::Forever => Moment::NEVER,
        }
    }

    /// A task acquires the keys, so that a caller that is not polled does not keep some of them
    /// while others could be had. If the caller goes away, the task drops what it has.
    /// `was_tried`: not with one command again; `refusal` is what came of it.
    async fn on_executor(
        self: &Arc<Self>,
        was_tried: bool,
        refusal: Option<Refusal>,
    ) -> Acquisition {
        let own = Arc::clone(self);
        let keys = self.orders.iter().map(|order| &order.key);
        let granted = on_executor(&self.engine, "an acquire", keys, |mut reply| async move {
            let granted = {
                let mut work = pin!(own.in_task(was_tried, refusal));
                poll_fn(|cx| match reply.poll_closed(cx) {
                    Poll::Ready(()) => Poll::Ready(None),
                    Poll::Pending => work.as_mut().poll(cx).map(Some),
                })
                .await
            };
            if let Some(granted) = granted {
                drop(reply.send(granted));
            }
        });
        granted.await?
    }

    async fn in_task(&self, was_tried: bool, mut refusal: Option<Refusal>) -> Acquisition {
        if !was_tried {
            match self.at_once(&*self.engine.backend, false).await {
                AtOnceOutcome::Ended(granted) => return granted,
                AtOnceOutcome::OneByOne(refused) => refusal = refused,
            }
        }
        let mut work = pin!(self.one_after_another(refusal));
        let mut shutdown = pin!(self.engine.shutdowns().begins_after(self.terms.shutdowns_before));
        poll_fn(|cx| match work.as_mut().poll(cx) {
            Poll::Pending => shutdown.as_mut().poll(cx).map(|()| Err(self.shutting_down())),
            granted @ Poll::Ready(_) => granted,
        })
        .await
    }

    async fn one_after_another(&self, mut refusal: Option<Refusal>) -> Acquisition {
        let clock = self.engine.clock();
        let mut failures = 0;
        loop {
            let lost = match self.round(refusal.take()).await {
                Ok(ownership) => return Ok(ownership),
                Err(Ended::Failed(error)) => return Err(error),
                Err(Ended::Lost(error)) => error,
            };
            let now = clock.now();
            if now >= self.end {
                return Err(self.of_call(lost));
            }
            let pause = backoff::failed(failures, fastrand::f64());
            // At the end of the wait, each key is asked for once more.
            clock.sleep_until(now.plus(pause).min(self.end)).await;
            failures += 1;
        }
    }

    /// `refusal`: what the call was told before.
    async fn round(&self, refusal: Option<Refusal>) -> Result<Ownership, Ended> {
        let mut held = Vec::with_capacity(self.orders.len());
        for (key_index, order) in self.orders.iter().enumerate() {
            let started = self.engine.clock().now();
            let granted = unless_lost(&held, self.acquire_next(order, started)).await?;
            // Keys that the call has by now were let go of since.
            let refusal = refusal.as_ref().filter(|refusal| refusal.key_index >= key_index);
            let failed = |error| Ended::Failed(self.of_key(error, order, started, refusal));
            held.push(granted.map_err(failed)?);
        }
        let first = &self.orders[0].key;
        let agreed = agree(&self.engine, &held, || self.within(), self.end);
        let agreed = unless_lost(&held, agreed).await?;
        let agreed = agreed.map_err(|Failed { one, fault }| {
            let key = one.hold().claim.key.name().to_owned();
            Ended::Failed(LockError::Unavailable { key, nodes: fault.nodes })
        })?;
        let fencing_token = agreed.map_err(|lost| Ended::Lost(not_all::lost(lost.hold())))?;
        join(&self.engine, held, fencing_token, self.terms).map_err(|reason| match reason {
            NotJoined::Lost(lost) => Ended::Lost(not_all::lost(&lost)),
            NotJoined::NotHeld(NotHeld::TooLate { took }) => {
                let (key, expire) = (first.name().to_owned(), self.terms.expire);
                Ended::Lost(LockError::ExpireTooShort { key, took, expire })
            }
            NotJoined::NotHeld(NotHeld::Unscheduled(error)) => Ended::Failed(error),
        })
    }

    /// Acquires the next key in what is left of the wait. The renewals of the call are counted from
    /// when it has all keys.
    async fn acquire_next(&self, order: &Order, started: Moment) -> Acquisition {
        if started >= self.ends() {
            return Err(not_all::too_late(&order.key));
        }
        let terms = Terms { max_renew: None, started, ..self.terms };
        acquire_one(&self.engine, order, &terms, self.end, self.ends()).await
    }

    /// The error of a key that was asked for at `started`, as one of the call. If only the end of
    /// the wait kept an answer from coming, it is what the call was told before: `refusal`.
    fn of_key(
        &self,
        error: LockError,
        order: &Order,
        started: Moment,
        refusal: Option<&Refusal>,
    ) -> LockError {
        let is_silence = matches!(&error, LockError::Unavailable { nodes, .. }
            if nodes.iter().all(|node| node.kind() == NodeErrorKind::NoReply));
        let left = self.ends().since(started);
        let was_cut = is_silence && left < self.engine.acquire_timeout;
        let error = match refusal {
            Some(refusal) if was_cut => {
                let time = CallTime { started: self.terms.started, now: self.engine.clock().now() };
                refusal.error(&self.orders[refusal.key_index].key, time)
            }
            None if was_cut && left <= LAST_ATTEMPT => not_all::too_late(&order.key),
            _ => error,
        };
        self.of_call(error)
    }

    fn shutting_down(&self) -> LockError {
        LockError::ShuttingDown { key: self.orders[0].key.name().to_owned() }
    }

    /// The error of one key, as one of the call.
    fn of_call(&self, mut error: LockError) -> LockError {
        if let LockError::Timeout { waited, .. } = &mut error {
            *waited = self.engine.clock().now().since(self.terms.started);
        }
        error
    }
}

/// Runs `work` while these are held.
async fn unless_lost<T>(held: &[Ownership], work: impl Future<Output = T>) -> Result<T, Ended> {
    let mut ends: Vec<Pin<Box<dyn Future<Output = ()> + Send + '_>>> =
        held.iter().map(|one| Box::pin(one.hold().over()) as _).collect();
    let mut work = pin!(work);
    poll_fn(|cx| {
        let lost = ends.iter_mut().position(|end| end.as_mut().poll(cx).is_ready());
        match lost {
            Some(key_index) => Poll::Ready(Err(Ended::Lost(not_all::lost(held[key_index].hold())))),
            None => work.as_mut().poll(cx).map(Ok),
        }
    })
    .await
}
