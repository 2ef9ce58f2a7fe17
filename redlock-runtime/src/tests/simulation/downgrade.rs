//! Writers that become readers: how a client asks for it, and the way to a node.

use std::sync::Arc;
use std::time::Duration;

use super::client::within;
use super::node::{Answer, Command};
use super::plan::Tick;
use super::wire::Wire;
use super::world::World;
use crate::backend::{Claim, Downgrade, Downgraded, Reply};
use crate::error::LockError;
use crate::guard::LockGuard;

/// The writer of `guard` becomes a reader, which takes some steps. `None`: it lost the lock, or the
/// client gave up in the middle.
pub(super) async fn downgraded(
    world: &Arc<World>,
    guard: LockGuard,
    (key, pause): (usize, Tick),
    patience: Option<Duration>,
) -> Option<LockGuard> {
    let guard = match within(patience, guard.downgrade()).await? {
        Ok(guard) => guard,
        Err(error) => {
            let is_expected = match error {
                LockError::Lost { .. } => true,
                LockError::Unavailable { .. } | LockError::ExpireTooShort { .. } => {
                    !world.plan.is_calm
                }
                _ => false,
            };
            if !is_expected {
                world.report(&format!("told, who becomes a reader: {error}"));
            }
            return None;
        }
    };
    let hold = Arc::clone(guard.lease().hold());
    world.enter(key, &hold);
    world.state().witness.tally.downgraded += 1;
    for _ in 0..2 {
        if guard.check().is_err() {
            break;
        }
        world.step(key, &hold);
        world.sleep(pause).await;
    }
    Some(guard)
}

impl Downgrade for Wire {
    fn downgrade<'a>(
        &'a self,
        held: &'a Claim,
        next: &'a Claim,
        within: Duration,
    ) -> Reply<'a, Downgraded> {
        let command = Command::Downgrade { held: held.clone(), next: next.clone() };
        Box::pin(async move {
            match self.call(command, within).await? {
                (Answer::Downgraded(found), _) => Ok(found),
                (other, _) => unreachable!("{other:?}"),
            }
        })
    }
}
