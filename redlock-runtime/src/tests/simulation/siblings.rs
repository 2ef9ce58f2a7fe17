//! Calls that re-enter one hold side by side: no two of them are inside at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::mixture::of_kind;
use super::plan::{KEYS, Tick};
use super::world::World;
use crate::client::Redlock;
use crate::hold::Hold;
use crate::kind::Kind;
use crate::lease::Lease;

/// Three calls of one task, of which one may give up in the middle. How they end does not matter.
pub(super) async fn re_enter(
    world: &Arc<World>,
    redlock: &Redlock,
    (key, kind): (usize, Kind),
    hold: &Arc<Hold>,
) {
    let inside = AtomicUsize::new(0);
    let inside = &inside;
    let call = |pause: Tick| {
        let request = of_kind(redlock.lock(KEYS[key]), kind).wait(Duration::from_millis(400));
        let body = async move {
            // Of a lease that was lost meanwhile there is nothing to re-enter.
            if Lease::current().is_some_and(|lease| lease.hold().id == hold.id) {
                let _turn = Inside::enter(world, inside);
                world.state().witness.tally.re_entered += 1;
                world.step(key, hold);
                world.sleep(pause).await;
                world.step(key, hold);
            }
        };
        Box::pin(request.run(body))
    };
    let given_up = tokio::time::timeout(Duration::from_millis(2), call(5));
    let _ = tokio::join!(call(3), given_up, call(1));
}

struct Inside<'a>(&'a AtomicUsize);

impl<'a> Inside<'a> {
    fn enter(world: &World, inside: &'a AtomicUsize) -> Self {
        if inside.fetch_add(1, Ordering::Relaxed) > 0 {
            world.report("two calls that re-entered a hold are inside of it at once");
        }
        Self(inside)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
