use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use deadpool_redis::redis::aio::ConnectionLike;
use deadpool_redis::redis::{Cmd, Pipeline, RedisFuture, RedisResult};

use super::*;
use crate::backend::redis::connection::Scripted;
use crate::backend::redis::node_core::{NodeCore, NodeOptions};
use crate::backend::redis::pubsub::Listener;
use crate::backend::{BackgroundWork, FifoQueue, QueueSignal, RedisNode, TokensUsed};
use crate::fencing::FencingToken;
use crate::key::LockKey;
use crate::kind::Kind;
use crate::mutex::Mutex;
use crate::owner::Owner;

/// Its subscriptions break soon after they are made; the last one hangs while it is made.
#[derive(Clone)]
struct Breaking {
    made: Arc<AtomicU32>,
    most: u32,
}

impl Source for Breaking {
    type Connection = Scripted;

    async fn connect(&self) -> RedisResult<Scripted> {
        Ok(Scripted::new([":1"; 9]))
    }

    async fn subscribe(&self, listener: Listener) -> RedisResult<Option<PubsubStream>> {
        if self.made.fetch_add(1, Ordering::Relaxed) >= self.most {
            return std::future::pending().await;
        }
        listener.pass_on(OWN_MESSAGE.into());
        Ok(Some(Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            drop(listener);
            broken()
        })))
    }
}

fn claim() -> Claim {
    let (key, owner) = (LockKey::new("lock:", "k").unwrap(), Owner::of_nobody("test"));
    Claim { key, owner, expire: Duration::from_secs(60), kind: Kind::Exclusive }
}

/// How long a call waits that may take eight seconds, after so many subscriptions have broken.
async fn waits_after(times: u32, holds: bool) -> Duration {
    let made = Arc::<AtomicU32>::default();
    let source = Breaking { made: Arc::clone(&made), most: times };
    let route = Route::new(NodeCore::new("n".to_owned(), source, NodeOptions::default()));
    let registry = &route.core.registry;
    let listening = Listening { route: &route };
    let (within, [held, next]) = (Duration::from_secs(8), [claim(), claim()]);
    let first = FencingToken::new(1).unwrap();
    let tokens = TokensUsed { used: first, reserved: first };
    let calls = async {
        let _ = registry.channel_within(within).await;
        while made.load(Ordering::Relaxed) < times.max(1) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // Until the last one has broken.
        tokio::time::sleep(Duration::from_millis(5)).await;
        let start = Instant::now();
        if holds {
            let _ = route.rotate(&held, tokens, &next, 1, within).await;
        } else {
            let _ = route.enqueue(&next, 1, within).await;
        }
        start.elapsed()
    };
    tokio::select! {
        () = listening.listen() => unreachable!("it can subscribe"),
        waited = calls => waited,
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_subscription_that_is_not_made_soon() {
    for times in 4..=10 {
        for holds in [false, true] {
            assert_eq!(waits_after(times, holds).await, Duration::ZERO, "{times}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_subscription_that_hangs_keeps_nobody_from_the_queue_for_long() {
    for (holds, limit) in [(false, 100), (true, 20)] {
        let waited = waits_after(0, holds).await;
        assert!(waited <= Duration::from_millis(limit + 1), "{waited:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_subscription_that_is_made_soon_is_waited_for() {
    let made = Arc::<AtomicU32>::default();
    let source = Breaking { made: Arc::clone(&made), most: 2 };
    let route = Route::new(NodeCore::new("n".to_owned(), source, NodeOptions::default()));
    let registry = &route.core.registry;
    let listening = Listening { route: &route };
    let calls = async {
        let _ = registry.channel_within(Duration::from_secs(8)).await;
        while registry.is_heard() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(registry.channel_within(Duration::from_secs(8)).await, registry.channel);
    };
    tokio::select! {
        () = listening.listen() => unreachable!("it can subscribe"),
        () = calls => {}
    }
}

/// Signals may have been missed meanwhile.
#[tokio::test(start_paused = true)]
async fn whoever_waits_looks_when_a_subscription_breaks_and_when_the_next_one_is_made() {
    let source = Breaking { made: Arc::default(), most: u32::MAX };
    let route = Route::new(NodeCore::new("n".to_owned(), source, NodeOptions::default()));
    let registry = &route.core.registry;
    let listening = Listening { route: &route };
    let mut subscription = registry.subscribe(&claim());
    let calls = async {
        let _ = registry.channel_within(Duration::from_secs(8)).await;
        for is_heard in [false, true] {
            assert!(matches!(subscription.signal().await, QueueSignal::Disturbed));
            assert_eq!(registry.is_heard(), is_heard);
        }
    };
    tokio::select! {
        () = listening.listen() => unreachable!("it can subscribe"),
        () = calls => {}
    }
}

/// A client of a pool. Commands reach another server than its mailbox, or the same.
#[derive(Clone, Default)]
struct Elsewhere {
    is_same: bool,
    listeners: Arc<Mutex<Vec<Listener>>>,
}

impl Source for Elsewhere {
    type Connection = Self;

    async fn connect(&self) -> RedisResult<Self> {
        Ok(self.clone())
    }

    fn channel(&self, prefix: &str) -> String {
        mailbox::channel(prefix)
    }

    async fn subscribe(&self, listener: Listener) -> RedisResult<Option<PubsubStream>> {
        let mut listeners = self.listeners.lock();
        // One is left in the mailbox from the time at which the one before was left.
        for _ in 0..=listeners.len().min(1) {
            listener.pass_on(OWN_MESSAGE.into());
        }
        listeners.push(listener);
        Ok(Some(Box::pin(std::future::pending())))
    }
}

impl ConnectionLike for Elsewhere {
    fn req_packed_command<'a>(&'a mut self, _: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(async { Ok(Value::Nil) })
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        _: &'a Pipeline,
        _: usize,
        _: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        if self.is_same
            && let Some(listener) = self.listeners.lock().last()
        {
            listener.pass_on(OWN_MESSAGE.into());
        }
        Box::pin(async { Ok(vec![Value::Int(1); 2]) })
    }

    fn get_db(&self) -> i64 {
        0
    }
}

/// As where the address moves to another server, twice, and the former ones live on.
#[tokio::test(start_paused = true)]
async fn a_mailbox_that_commands_do_not_reach_is_left() {
    for is_same in [false, true] {
        let source = Elsewhere { is_same, ..Elsewhere::default() };
        let listeners = Arc::clone(&source.listeners);
        let route = Route::new(NodeCore::new("n".to_owned(), source, NodeOptions::default()));
        let registry = &route.core.registry;
        let listening = Listening { route: &route };
        let doubted = async {
            let _ = registry.channel_within(Duration::from_secs(8)).await;
            for moves in 1..=2 {
                registry.doubt();
                tokio::time::sleep(3 * REPLY).await;
                let left = if is_same { 0 } else { moves };
                assert_eq!(listeners.lock().len(), 1 + left);
            }
        };
        tokio::select! {
            () = listening.listen() => unreachable!("it can subscribe"),
            () = doubted => {}
        }
    }
}

/// As the background thread may die.
#[test]
fn a_task_that_ends_with_its_runtime_is_begun_again() {
    let made = Arc::<AtomicU32>::default();
    let source = Breaking { made: Arc::clone(&made), most: u32::MAX };
    let node = RedisNode::new("n".to_owned(), source, NodeOptions::default());
    let registry = &node.route.core.registry;
    for _ in 0..2 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let task = node.background_task().expect("there is none");
        assert!(node.background_task().is_none(), "there is one");
        let before = made.load(Ordering::Relaxed);
        runtime.block_on(async {
            tokio::spawn(task);
            let _ = registry.channel_within(Duration::from_secs(60)).await;
            while made.load(Ordering::Relaxed) == before {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        drop(runtime);
        assert!(!registry.is_heard());
    }
    drop(node.background_task().expect("the last one has ended"));
    assert!(node.background_task().is_some(), "one that was never run has ended as well");
}
