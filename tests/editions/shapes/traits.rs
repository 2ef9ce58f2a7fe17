use std::future::Future;
use std::pin::Pin;

use async_recursion::async_recursion;
use async_trait::async_trait;

use crate::support::{Locked, Order, pause};

#[allow(async_fn_in_trait)]
pub trait Native {
    const NAME: &'static str = "native";

    fn id(&self) -> u64;

    async fn required(&self, id: u64) -> Locked<u64>;

    #[redis_lock(key = "<Self::NAME>-<self.id()>")]
    async fn provided(&self) -> Locked<u64> {
        pause().await;
        Ok(self.id())
    }
}

impl Native for Order {
    fn id(&self) -> u64 {
        self.id
    }

    #[redis_lock(key = "native-<self.id>-<id>")]
    async fn required(&self, id: u64) -> Locked<u64> {
        pause().await;
        Ok(self.id + id)
    }
}

#[async_trait]
pub trait Boxed {
    #[redis_lock(key = "boxed-default")]
    async fn provided(&self) -> Locked<u64> {
        pause().await;
        Ok(1)
    }

    async fn shared(&self, text: &str) -> Locked<u64>;
    async fn exclusive(&mut self, n: u64) -> Locked<u64>;
    async fn owned(self, n: u64) -> Locked<u64>;
    async fn pattern(&self, pair: (u64, u64)) -> Locked<u64>;
    async fn generic<T: std::fmt::Display + Send>(&self, value: T) -> Locked<String>;
    async fn unit(&self);
    async fn associated(id: u64) -> Locked<u64>;
    async fn ranges_and_paths(&self, hash: &str, n: usize) -> Locked<usize>;
    async fn changed_by_the_key(&self, ids: std::vec::IntoIter<u64>) -> Locked<usize>;
}

const SHARDS: usize = 8;

pub fn wait() -> std::time::Duration {
    std::time::Duration::from_secs(1)
}

#[async_trait]
impl Boxed for Order {
    #[redis_lock(key = "boxed-<self.id>-<text>")]
    async fn shared(&self, text: &str) -> Locked<u64> {
        let n: u64 = text.parse()?;
        pause().await;
        Ok(self.id + n)
    }

    #[redis_lock(key = "boxed-<self.id>")]
    async fn exclusive(&mut self, n: u64) -> Locked<u64> {
        self.id += n;
        pause().await;
        Ok(self.id)
    }

    #[redis_lock(key = "boxed-<self.id>-<n>")]
    async fn owned(mut self, mut n: u64) -> Locked<u64> {
        n += 1;
        self.id += n;
        pause().await;
        Ok(self.id)
    }

    #[redis_lock(key = "boxed-<self.id>-<a>-<b>")]
    async fn pattern(&self, (a, b): (u64, u64)) -> Locked<u64> {
        pause().await;
        Ok(self.id + a + b)
    }

    #[redis_lock(key = "boxed-<value>")]
    async fn generic<T: std::fmt::Display + Send>(&self, value: T) -> Locked<String> {
        pause().await;
        Ok(value.to_string())
    }

    #[redis_lock(key = "boxed-unit", on_error = panic)]
    async fn unit(&self) {
        pause().await;
    }

    #[redis_lock(key = "boxed-<id>")]
    async fn associated(id: u64) -> Locked<u64> {
        Ok(id)
    }

    #[redis_lock(key = "<hash[..self.items.len()]>-<hash[..n]>-<n % self::SHARDS>",
        wait = self::wait() + std::time::Duration::from_secs(self.id))]
    async fn ranges_and_paths(&self, hash: &str, n: usize) -> Locked<usize> {
        pause().await;
        Ok(hash.len() + n + self::SHARDS)
    }

    #[redis_lock(key = "<ids.next().unwrap_or_default()>-<self.id>")]
    async fn changed_by_the_key(&self, mut ids: std::vec::IntoIter<u64>) -> Locked<usize> {
        pause().await;
        Ok(ids.by_ref().count())
    }
}

#[async_trait(?Send)]
pub trait BoxedLocal {
    async fn local(&self, rc: std::rc::Rc<u32>) -> Locked<u32>;
}

#[async_trait(?Send)]
impl BoxedLocal for Order {
    #[redis_lock(key = "boxed-local-<rc>")]
    async fn local(&self, rc: std::rc::Rc<u32>) -> Locked<u32> {
        pause().await;
        Ok(*rc)
    }
}

#[async_recursion]
#[redis_lock(key = "recursive-<n>")]
pub async fn recursion_above(n: u32) -> Locked<u32> {
    if n == 0 { Ok(0) } else { recursion_above(n - 1).await }
}

#[redis_lock(key = "recursive-<n>")]
#[async_recursion]
pub async fn recursion_below(n: u32) -> Locked<u32> {
    if n == 0 { Ok(0) } else { recursion_below(n - 1).await }
}

#[redis_lock(key = "by-hand-<n>")]
pub fn boxed_by_hand(n: u32) -> Pin<Box<dyn Future<Output = Locked<u32>> + Send>> {
    let twice = n * 2;
    Box::pin(async move {
        pause().await;
        Ok(twice)
    })
}

#[redis_lock(key = "by-hand-<order.id>")]
pub fn boxed_with_lifetime<'a>(
    order: &'a mut Order,
    text: &'a str,
) -> Pin<Box<dyn Future<Output = Locked<u64>> + Send + 'a>> {
    Box::pin(async move {
        order.id += text.parse::<u64>()?;
        pause().await;
        Ok(order.id)
    })
}

#[redis_lock(key = "by-hand-<order.id>")]
pub fn boxed_without_capture(order: &Order) -> Pin<Box<dyn Future<Output = Locked<u64>> + Send>> {
    let id = order.id;
    Box::pin(async move { Ok(id) })
}

#[redis_lock(key = "by-hand-<order.id>")]
pub fn boxed_after_macros<'a>(
    order: &'a mut Order,
    mut text: String,
    names: &[String],
    mut n: u64,
) -> Pin<Box<dyn Future<Output = Locked<u64>> + Send + 'a>> {
    assert!(!names.is_empty() && order.id > 0);
    text.push('a');
    n += 1;
    let id = &mut order.id;
    Box::pin(async move {
        *id += n;
        pause().await;
        Ok(*id + text.parse::<u64>()?)
    })
}

pub type Alias<'a, T> = Pin<Box<dyn Future<Output = Locked<T>> + Send + 'a>>;

#[redis_lock(key = "by-hand-<text>")]
pub fn boxed_alias(text: &str) -> Alias<'_, usize> {
    Box::pin(async move {
        let n: usize = text.parse()?;
        pause().await;
        Ok(n)
    })
}

#[redis_lock(key = "by-hand-<n>")]
#[allow(clippy::manual_async_fn)]
pub fn returns_a_future(n: u32) -> impl Future<Output = Locked<u32>> + Send {
    async move {
        pause().await;
        Ok(n)
    }
}

#[redis_lock(key = "by-hand-<text>")]
#[allow(clippy::manual_async_fn)]
pub fn returns_a_future_after_macros<'a>(
    text: &'a str,
    order: &'a Order,
) -> impl Future<Output = Locked<usize>> + Send + 'a {
    let name = order.name();
    debug_assert!(!name.is_empty());
    async move {
        let n: usize = text.parse()?;
        pause().await;
        Ok(n + name.len())
    }
}

#[redis_lock(key = "by-hand-<n>", client = redlock)]
#[allow(clippy::manual_async_fn)]
pub fn returns_a_future_of_a_client(
    redlock: &redlock::Redlock,
    n: u32,
) -> impl Future<Output = Locked<u32>> + Send {
    async move {
        pause().await;
        Ok(n)
    }
}
