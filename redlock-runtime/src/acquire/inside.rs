//! A call that is made inside of a hold, which a shutdown does not end.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use super::order::{Acquisition, Order};
use crate::engine::Engine;
use crate::error::LockError;
use crate::hold::Hold;

/// Acquires inside of the hold `outer`. Once that is over, nothing is left that must come to its
/// end, and a shutdown ends this call as any other. Callers box it: the future of a call that is
/// not inside of a hold would be larger.
pub(super) async fn inside(
    engine: &Arc<Engine>,
    order: &Order,
    outer: &Arc<Hold>,
    mut acquire: impl Future<Output = Acquisition> + Unpin,
) -> Acquisition {
    let mut refused = pin!(async {
        outer.over().await;
        engine.shutdowns().begins_after(Some(order.shutdowns)).await;
    });
    poll_fn(|cx| match refused.as_mut().poll(cx) {
        Poll::Ready(()) => {
            Poll::Ready(Err(LockError::ShuttingDown { key: order.key.name().to_owned() }))
        }
        Poll::Pending => Pin::new(&mut acquire).poll(cx),
    })
    .await
}
