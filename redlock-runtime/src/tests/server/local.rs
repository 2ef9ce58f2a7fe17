//! The connection of a caller's runtime to the server.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::Server;
use crate::backend::{Departures, Fault, Found, LocalConnection, LockBackend, Release, Reply};
use crate::background_thread;
use crate::clock::Moment;

/// Can it be reached from the runtime of the caller?
#[derive(Default, PartialEq)]
pub(super) enum Local {
    #[default]
    No,
    Yes,
    /// Its connection has no place for a release that nobody awaits.
    Full,
}

impl Server {
    /// It can be reached from the runtime of the caller.
    pub(in crate::tests) fn give_local_connection(&self) {
        self.state().local_connection = Local::Yes;
    }

    /// A release over the local connection has to be awaited.
    pub(in crate::tests) fn fill_local_connection(&self) {
        self.state().local_connection = Local::Full;
    }
}

/// As over a real local connection, a timer of the background thread ends what is not answered.
pub(super) fn on_background_timers<'a, T>(
    met: impl Future<Output = Result<T, Fault>> + Send + 'a,
) -> Reply<'a, T> {
    let (background, mut met) = (background_thread::handle().unwrap(), Box::pin(met));
    Box::pin(poll_fn(move |cx| {
        let _timers = background.enter();
        met.as_mut().poll(cx)
    }))
}

impl Departures for Server {
    fn next_departure(&self) -> Option<oneshot::Receiver<()>> {
        None
    }

    fn has_room(&self, _: bool) -> bool {
        false
    }

    fn join<'a>(&'a self, _: Release<'a>, _: Duration, _: Moment) -> Option<Reply<'a, Found>> {
        None
    }
}

impl LocalConnection for Server {
    fn local_connection(&self) -> Option<Arc<dyn LockBackend>> {
        let me = self.me.upgrade()? as Arc<dyn LockBackend>;
        (self.state().local_connection != Local::No).then_some(me)
    }
}
