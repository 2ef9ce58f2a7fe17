//! Connections that only listen: they receive what is sent to this client's channel or mailbox.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use deadpool_redis::redis::RedisError;
use deadpool_redis::redis::aio::{PubSub, PubSubSink, PubSubStream};
use futures_core::Stream;
use tokio::sync::{Notify, mpsc};
use tokio::time::{MissedTickBehavior, timeout};

use crate::owner;

/// How often a silent connection is checked for a sign of life.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(15);
/// How long the sign of life may take.
pub(crate) const SIGN_OF_LIFE: Duration = Duration::from_secs(5);

/// A fresh channel of publish and subscribe.
pub(crate) fn channel() -> String {
    format!("redlock:{}", owner::random_uuid().simple())
}

/// The events of a subscription.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum News {
    Message(Vec<u8>),
    /// Messages may have been missed, but from now on they are received.
    #[cfg_attr(not(feature = "cluster"), expect(dead_code, reason = "one server has no parts"))]
    Gap,
}

/// Where a subscription listens, and where its messages go.
pub(crate) struct Listener {
    pub(crate) channel: String,
    pub(crate) news: mpsc::UnboundedSender<News>,
    /// Notified when a message seems to have been missed.
    #[cfg_attr(not(feature = "cluster"), expect(dead_code, reason = "one server has no parts"))]
    pub(crate) doubts: Arc<Notify>,
}

impl Listener {
    pub(crate) fn pass_on(&self, message: Vec<u8>) {
        // The receiver is gone when the subscription is about to be dropped.
        let _ = self.news.send(News::Message(message));
    }
}

/// Listens while it is polled. It ends when its connection breaks, with the reason.
pub(crate) type PubsubStream = Pin<Box<dyn Future<Output = RedisError> + Send>>;

/// Listens on one connection of publish and subscribe, which has subscribed to the channel.
pub(crate) fn on(sink: PubSubSink, stream: PubSubStream, listener: Listener) -> PubsubStream {
    Box::pin(listen(sink, stream, listener))
}

/// Subscribes to the channel of `listener`.
pub(crate) async fn subscribe(
    pubsub: PubSub,
    listener: Listener,
) -> Result<PubsubStream, RedisError> {
    let (mut sink, stream) = pubsub.split();
    sink.subscribe(&listener.channel).await?;
    Ok(on(sink, stream, listener))
}

async fn listen(mut sink: PubSubSink, mut stream: PubSubStream, listener: Listener) -> RedisError {
    let mut heartbeat = tokio::time::interval(HEARTBEAT);
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            message = next(&mut stream) => match message {
                Some(message) => listener.pass_on(message),
                None => return broken(),
            },
            // Subscribing once more changes nothing, and needs no other permission.
            _ = heartbeat.tick() => {
                match timeout(SIGN_OF_LIFE, sink.subscribe(&listener.channel)).await {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => return error,
                    Err(_) => return silent(),
                }
            }
        }
    }
}

/// The next message. `None`: the connection broke. Cancel safe.
pub(crate) async fn next(stream: &mut PubSubStream) -> Option<Vec<u8>> {
    let message = std::future::poll_fn(|context| Pin::new(&mut *stream).poll_next(context)).await;
    message.map(|message| message.get_payload_bytes().to_vec())
}

pub(crate) fn broken() -> RedisError {
    io::Error::from(io::ErrorKind::ConnectionReset).into()
}

pub(crate) fn silent() -> RedisError {
    io::Error::from(io::ErrorKind::TimedOut).into()
}
