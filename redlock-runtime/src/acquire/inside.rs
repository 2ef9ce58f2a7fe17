//! A call that is made inside of holds: no shutdown ends it while one of them goes on.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use super::order::{Acquisition, Order};
use crate::engine::Engine;
use crate::error::LockError;
use crate::hold::Hold;

/// Acquires inside of the holds `outer`. Once all of them are over, no body is left that needs the
/// lock to come to its end, and a shutdown ends this call as any other; so does one that was under
/// way when the call began, and may have ended together with the last hold. Callers box this
/// future: that of a call that is not inside of a hold would be larger.
pub(super) async fn inside(
    engine: &Arc<Engine>,
    order: &Order,
    outer: &[Arc<Hold>],
    mut acquire: impl Future<Output = Acquisition> + Unpin,
) -> Acquisition {
    let before = Some(order.shutdowns_before);
    let mut refused = pin!(async {
        let is_refused = engine.shutdowns().refuse(before);
        for hold in outer {
            hold.over().await;
        }
        if !is_refused {
            engine.shutdowns().begins_after(before).await;
        }
    });
    poll_fn(|cx| match refused.as_mut().poll(cx) {
        Poll::Ready(()) => {
            Poll::Ready(Err(LockError::ShuttingDown { key: order.key.name().to_owned() }))
        }
        Poll::Pending => Pin::new(&mut acquire).poll(cx),
    })
    .await
}
