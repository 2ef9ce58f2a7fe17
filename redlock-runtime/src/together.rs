//! Awaits several futures together.

use std::pin::Pin;
use std::task::Poll;

pub(crate) async fn together<F: Future + Unpin>(mut futures: Vec<F>) -> Vec<F::Output> {
    let mut outputs: Vec<Option<F::Output>> = futures.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (future, output) in futures.iter_mut().zip(&mut outputs) {
            if output.is_none()
                && let Poll::Ready(ready) = Pin::new(future).poll(context)
            {
                *output = Some(ready);
            }
        }
        if outputs.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    outputs.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn together_waits_for_all_and_keeps_their_order() {
        let sleep = |seconds| {
            Box::pin(async move {
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                seconds
            })
        };
        let start = tokio::time::Instant::now();
        assert_eq!(together(vec![sleep(3), sleep(1), sleep(2)]).await, [3, 1, 2]);
        assert_eq!(start.elapsed(), Duration::from_secs(3));
    }
}
