//! Receives what the server publishes for this client, over a connection of its own.

use std::pin::pin;
use std::time::Duration;

use deadpool_redis::redis;
use deadpool_redis::redis::{RedisResult, Value};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, timeout};

use super::mailbox;
use super::message::signals;
use super::registry::Phase;
use super::subscription::{News, PubsubStream, broken};
use crate::backend::redis::connection::is_withheld;
use crate::backend::redis::connection::source::{CONNECT, Source};
use crate::backend::redis::founders;
use crate::backend::redis::route::Route;
use crate::backend::{Claim, Release};
use crate::denial;
use crate::shield::tell;

/// How long the release of an unwanted lock may take.
const REPLY: Duration = Duration::from_secs(1);
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Up to this pause, whoever joins the queue waits for the next subscription. During a longer one,
/// it joins at once, as one that is not signalled.
const SOON: Duration = Duration::from_millis(50);

/// A test message that shows that the channel works. It carries no signal.
const OWN_MESSAGE: &str = "";

/// The messages that a subscription has received.
type Heard = mpsc::UnboundedReceiver<News>;

/// Listens for the waiters of a node.
pub(crate) struct Listening<'a, S: Source> {
    pub(crate) route: &'a Route<S>,
}

impl<S: Source> Listening<'_, S> {
    /// Receives signals, from the first time on that a waiter needs them.
    pub(crate) async fn listen(&self) {
        let registry = &self.route.core.registry;
        registry.wanted().await;
        let mut pause = SHORTEST_PAUSE;
        let (mut was_heard, mut denials) = (false, 0);
        loop {
            // A connection for commands may take as long.
            match timeout(CONNECT, self.subscribe()).await {
                Ok(Ok(Some((subscription, heard)))) => {
                    let since = Instant::now();
                    registry.enter(Phase::Heard);
                    if was_heard {
                        registry.disturb();
                    }
                    (was_heard, denials) = (true, 0);
                    self.hear(subscription, heard).await;
                    self.route.core.health.broke();
                    if since.elapsed() > LONGEST_PAUSE {
                        pause = SHORTEST_PAUSE;
                    }
                    let is_soon = pause <= SOON;
                    registry.enter(if is_soon { Phase::Wanted } else { Phase::Silent });
                }
                Ok(Ok(None)) => {
                    registry.enter(Phase::Silent);
                    return;
                }
                Ok(Err(error)) if is_withheld(&error) => {
                    tell!(
                        debug,
                        node = self.route.core.name,
                        "this user may not subscribe and publish, so its waiters ask now and then"
                    );
                    registry.enter(Phase::Silent);
                    pause = denial::pause(denials);
                    denials += 1;
                }
                Ok(Err(_)) | Err(_) => registry.enter(Phase::Silent),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// A subscription that has received a test message. `None`: this source cannot subscribe.
    async fn subscribe(&self) -> RedisResult<Option<(PubsubStream, Heard)>> {
        let (listener, mut heard) = self.route.core.registry.listener();
        let made = self.route.core.source.inner.subscribe(listener).await?;
        let Some(mut subscription) = made else { return Ok(None) };
        let shown = tokio::select! {
            biased;
            error = &mut subscription => Err(error),
            shown = self.show(&mut heard) => shown,
        };
        shown.map(|()| Some((subscription, heard)))
    }

    /// Sends a test message, and waits until it is received.
    async fn show(&self, heard: &mut Heard) -> RedisResult<()> {
        if let Some(key) = mailbox::key_of(&self.route.core.registry.channel) {
            self.put(key).await?;
        } else {
            // Heard through a replica, it would not be counted, and neither would signals. In a
            // cluster, any server may have it.
            if !self.is_counted().await? && S::LEADS_TO_ONE {
                return Err(broken());
            }
        }
        loop {
            match heard.recv().await {
                Some(news) if is_own(&news) => return Ok(()),
                // An older message: a mailbox keeps messages that came while no connection fetched
                // them.
                Some(news) => self.pass_on(&news),
                None => return Err(broken()),
            }
        }
    }

    /// Publishes a test message over the connection for commands. Does the server count a listener?
    /// Otherwise the subscription is not with the server that hands locks over.
    async fn is_counted(&self) -> RedisResult<bool> {
        let connection = &mut self.route.connection.borrow().await?.connection;
        let mut publish = redis::cmd("PUBLISH");
        publish.arg(&self.route.core.registry.channel).arg(OWN_MESSAGE);
        Ok(publish.query_async::<i64>(connection).await? > 0)
    }

    /// Puts a test message into the mailbox, over the connection for commands.
    async fn put(&self, key: &str) -> RedisResult<()> {
        let connection = &mut self.route.connection.borrow().await?.connection;
        let put = mailbox::put(key, OWN_MESSAGE);
        put.query_async::<Value>(connection).await.map(drop).map_err(founders::first)
    }

    /// A signal seems to have been missed. Is the subscription known to be with another server?
    /// `own`: notified when a test message is received.
    async fn is_misled(&self, own: &Notify) -> bool {
        let registry = &self.route.core.registry;
        registry.doubted().await;
        let Some(key) = mailbox::key_of(&registry.channel) else {
            return matches!(timeout(REPLY, self.is_counted()).await, Ok(Ok(false)));
        };
        // One that is received before the new one is sent is an older one, and proves nothing.
        let mut received = pin!(own.notified());
        received.as_mut().enable();
        matches!(timeout(REPLY, self.put(key)).await, Ok(Ok(())))
            && timeout(REPLY, received).await.is_err()
    }

    /// Passes on received messages, until the connection breaks.
    async fn hear(&self, mut subscription: PubsubStream, mut heard: Heard) {
        let own = Notify::new();
        let mut misled = pin!(self.is_misled(&own));
        loop {
            tokio::select! {
                biased;
                error = &mut subscription => {
                    tell!(debug, node = self.route.core.name, %error, "the subscription broke");
                    break;
                }
                Some(news) = heard.recv() => {
                    if is_own(&news) {
                        own.notify_waiters();
                    }
                    self.pass_on(&news);
                }
                is_misled = &mut misled, if S::LEADS_TO_ONE => {
                    if is_misled {
                        let node = &self.route.core.name;
                        tell!(debug, node, "the subscription is with another server");
                        break;
                    }
                    misled.set(self.is_misled(&own));
                }
            }
        }
        while let Ok(news) = heard.try_recv() {
            self.pass_on(&news);
        }
    }

    fn pass_on(&self, news: &News) {
        match news {
            News::Message(message) => {
                for claim in
                    signals(message).filter_map(|one| self.route.core.registry.dispatch(one))
                {
                    self.free(claim);
                }
            }
            News::Gap => self.route.core.registry.disturb(),
        }
    }

    /// Releases a lock that was handed to an owner that gave up, and takes the owner out of the
    /// queue.
    fn free(&self, claim: Claim) {
        let route = self.route.clone();
        tokio::spawn(async move {
            let release = Release { may_be_queued: true, ..Release::of(&claim) };
            if let Err(fault) = route.release_over(&release, REPLY, false).await {
                tell!(debug, nodes = ?fault.nodes, "an unwanted lock is free when its lease ends");
            }
        });
    }
}

fn is_own(news: &News) -> bool {
    matches!(news, News::Message(message) if message == OWN_MESSAGE.as_bytes())
}

#[cfg(test)]
mod tests;
