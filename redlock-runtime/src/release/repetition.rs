//! When a release that has failed is tried again.

use crate::backoff;
use crate::clock::Moment;
use crate::engine::Engine;

/// The tries of one release that fail.
pub(super) struct Repetition {
    begun: Moment,
    failures: u32,
    /// How many shutdowns of the client had begun.
    shutdowns_before: u64,
}

impl Repetition {
    /// The first try begins.
    pub(super) fn begin(engine: &Engine) -> Self {
        let (begun, shutdowns_before) = (engine.clock().now(), engine.shutdowns().count());
        Self { begun, failures: 0, shutdowns_before }
    }

    /// A try has failed: when the next one is due.
    pub(super) fn next(&mut self, engine: &Engine) -> Moment {
        let now = engine.clock().now();
        let (failing_for, under_way) = (now.since(self.begun), engine.pending.under_way());
        let pause = backoff::undone(self.failures, failing_for, under_way, fastrand::f64());
        self.failures += 1;
        now.plus(pause)
    }

    /// Waits until then, or until a shutdown begins, which may not have the time to wait for the
    /// pause: the release is tried at once, and often at first, as if it began anew.
    pub(super) async fn rest(&mut self, engine: &Engine, until: Moment) {
        tokio::select! {
            biased;
            () = engine.clock().sleep_until(until) => {}
            () = engine.shutdowns().another_begins(self.shutdowns_before) => {
                *self = Self::begin(engine);
            }
        }
    }
}
