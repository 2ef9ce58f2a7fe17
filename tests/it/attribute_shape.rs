//! Every shape of an `async fn` runs under its lock: methods, traits, generics, recursion.

use std::sync::Mutex;

use async_recursion::async_recursion;
use async_trait::async_trait;
use redlock::{LockError, Redlock, redis_lock};

use crate::clients::{client, key_here};

#[derive(Debug)]
enum AppError {
    Lock(LockError),
    Parse(std::num::ParseIntError),
}

impl From<LockError> for AppError {
    fn from(error: LockError) -> Self {
        AppError::Lock(error)
    }
}

impl From<std::num::ParseIntError> for AppError {
    fn from(error: std::num::ParseIntError) -> Self {
        AppError::Parse(error)
    }
}

struct Shop {
    name: String,
    locks: Redlock,
    sold: u32,
}

impl Shop {
    #[redis_lock(key = "shop-<self.name>", client = &self.locks)]
    async fn shared(&self) -> Result<String, LockError> {
        Ok(key_here().await)
    }

    #[redis_lock(key = "shop-<self.name>-<item>", client = &self.locks)]
    async fn exclusive(&mut self, item: &str) -> Result<u32, LockError> {
        key_here().await;
        self.sold += 1;
        Ok(self.sold)
    }

    #[redis_lock(key = "shop-<self.name>", client = &self.locks)]
    async fn boxed(self: Box<Self>) -> Result<String, LockError> {
        Ok(key_here().await)
    }

    #[redis_lock(key = "shops", client = locks)]
    async fn associated(locks: &Redlock) -> Result<String, LockError> {
        Ok(key_here().await)
    }
}

trait Native {
    fn locks(&self) -> &Redlock;

    async fn required(&self, id: u64) -> Result<String, LockError>;

    #[redis_lock(key = "provided-<id>", client = self.locks())]
    async fn provided(&self, id: u64) -> Result<String, LockError> {
        Ok(key_here().await)
    }
}

impl Native for Shop {
    fn locks(&self) -> &Redlock {
        &self.locks
    }

    #[redis_lock(key = "required-<id>-<self.name>", client = &self.locks)]
    async fn required(&self, id: u64) -> Result<String, LockError> {
        Ok(key_here().await)
    }
}

#[async_trait]
trait Boxed: Sync {
    fn locks(&self) -> &Redlock;

    async fn pattern(&self, pair: (u32, u32), text: &str) -> Result<String, AppError>;

    #[redis_lock(key = "boxed-default", client = self.locks())]
    async fn provided(&self) -> Result<String, AppError> {
        Ok(key_here().await)
    }
}

#[async_trait]
impl Boxed for Shop {
    fn locks(&self) -> &Redlock {
        &self.locks
    }

    #[redis_lock(key = "boxed-<a>-<b>-<text>", client = &self.locks)]
    async fn pattern(&self, (a, b): (u32, u32), text: &str) -> Result<String, AppError> {
        let n: u32 = text.parse()?;
        Ok(format!("{} {}", key_here().await, a + b + n))
    }
}

#[tokio::test]
async fn methods_and_traits() {
    let mut shop = Shop { name: "north".into(), locks: client().await, sold: 0 };
    assert_eq!(shop.shared().await.unwrap(), "shop-north");
    assert_eq!(shop.exclusive("pen").await.unwrap(), 1);
    assert_eq!(shop.exclusive("pen").await.unwrap(), 2);
    assert_eq!(Shop::associated(&shop.locks).await.unwrap(), "shops");
    assert_eq!(shop.required(3).await.unwrap(), "required-3-north");
    assert_eq!(Native::provided(&shop, 4).await.unwrap(), "provided-4");
    let boxed: Box<dyn Boxed> = Box::new(Shop { name: String::new(), sold: 0, ..shop });
    assert_eq!(boxed.provided().await.unwrap(), "boxed-default");
    assert_eq!(boxed.pattern((1, 2), "3").await.unwrap(), "boxed-1-2-3 6");
    assert!(matches!(boxed.pattern((1, 2), "x").await, Err(AppError::Parse(_))));
    drop(boxed.locks().lock("boxed-1-2-x").wait(redlock::Wait::Never).acquire().await.unwrap());
}

#[tokio::test]
async fn a_boxed_receiver_may_be_consumed() {
    let shop = Shop { name: "south".into(), locks: client().await, sold: 0 };
    assert_eq!(Box::new(shop).boxed().await.unwrap(), "shop-south");
}

#[redis_lock(key = "parse-<text>", client = redlock)]
async fn parses(redlock: &Redlock, text: &str, out: &mut Vec<u32>) -> Result<u32, AppError> {
    if text.is_empty() {
        return Ok(0);
    }
    if text == "early" {
        out.push(1);
        return Ok(1);
    }
    let n: u32 = text.parse()?;
    out.push(n);
    Ok(n)
}

/// However the body is left, the lock is free when the call has returned.
#[tokio::test]
async fn every_way_out_of_the_body_releases() {
    let redlock = client().await;
    let mut out = Vec::new();
    assert_eq!(parses(&redlock, "early", &mut out).await.unwrap(), 1);
    assert_eq!(parses(&redlock, "17", &mut out).await.unwrap(), 17);
    match parses(&redlock, "pen", &mut out).await.unwrap_err() {
        AppError::Parse(error) => assert_eq!(error.to_string(), "invalid digit found in string"),
        AppError::Lock(error) => panic!("{error}"),
    }
    assert_eq!(out, [1, 17]);
    for text in ["early", "17", "pen"] {
        let key = format!("parse-{text}");
        assert!(redlock.lock(&key).try_acquire().await.unwrap().is_some(), "{key}");
    }
    assert!(redlock.held().is_empty());
}

#[async_recursion]
#[redis_lock(key = "sum-<n>", client = redlock)]
async fn sum(redlock: &Redlock, n: u32) -> Result<u32, LockError> {
    key_here().await;
    if n == 0 { Ok(0) } else { Ok(n + sum(redlock, n - 1).await?) }
}

/// What the body has at its head runs under the lock, and the key is that of the argument.
#[expect(clippy::let_and_return, reason = "a block that ends with the name of the argument")]
#[async_recursion]
#[redis_lock(key = "head-<n>", client = redlock)]
async fn head(redlock: &Redlock, n: u32) -> Result<(String, u32), LockError> {
    let n = {
        let n = n + 1;
        n
    };
    let key = {
        let redlock = redlock;
        redlock.held().first().map(|lease| lease.key().to_owned())
    };
    Ok((key.unwrap_or_default(), n))
}

#[redis_lock(key = "generic-<N>-<value>", client = redlock)]
async fn generic<T, const N: usize>(redlock: &Redlock, value: T) -> Result<[T; N], LockError>
where
    T: std::fmt::Display + Copy,
{
    key_here().await;
    Ok([value; N])
}

#[redis_lock(key = "iter", client = redlock)]
async fn opaque(redlock: &Redlock) -> Result<impl Iterator<Item = u32> + use<>, LockError> {
    key_here().await;
    Ok((1..4).map(|n| n * 2))
}

#[tokio::test]
async fn recursion_and_generics() {
    let redlock = client().await;
    assert_eq!(sum(&redlock, 10).await.unwrap(), 55);
    assert_eq!(head(&redlock, 3).await.unwrap(), ("head-3".to_owned(), 4));
    assert!(redlock.held().is_empty());
    assert_eq!(opaque(&redlock).await.unwrap().sum::<u32>(), 12);
    assert_eq!(generic::<_, 2>(&redlock, 'x').await.unwrap(), ['x', 'x']);
}

/// Notes its name when it is dropped, and whether the lock is held then.
struct Noted<'a>(&'static str, &'a Redlock, &'a Mutex<Vec<String>>);

impl Noted<'_> {
    fn is_named(&self) -> bool {
        !self.0.is_empty()
    }

    fn rename(&mut self, name: &'static str) {
        self.0 = name;
    }
}

impl Drop for Noted<'_> {
    fn drop(&mut self) {
        let when = if self.1.held().is_empty() { "late" } else { "locked" };
        self.2.lock().unwrap().push(format!("{} {when}", self.0));
    }
}

impl std::fmt::Display for Noted<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

#[redis_lock(key = "drops-<b>-<d>", client = redlock)]
async fn drops(
    redlock: &Redlock,
    a: Noted<'_>,
    b: Noted<'_>,
    mut c: Noted<'_>,
    d: Noted<'_>,
) -> Result<(), LockError> {
    key_here().await;
    // Not in the order of the arguments.
    assert!(b.is_named());
    c.rename("c");
    assert!(a.is_named());
    Ok(())
}

/// As a plain function does it: the last argument first, and those that the body uses while the
/// lock is held. What only the key reads is not the body's, and goes after the release.
#[tokio::test]
async fn arguments_are_dropped_in_the_order_of_a_plain_function() {
    let redlock = client().await;
    let log = Mutex::new(Vec::new());
    let noted = |name| Noted(name, &redlock, &log);
    drops(&redlock, noted("a"), noted("b"), noted("?"), noted("d")).await.unwrap();
    let log = log.into_inner().unwrap();
    assert_eq!(log, ["c locked", "b locked", "a locked", "d late"]);
}

#[async_recursion]
#[redis_lock(key = "drops-<b>", client = redlock)]
async fn boxed_drops<'a>(
    redlock: &'a Redlock,
    a: Noted<'a>,
    b: Noted<'a>,
    log: &'a Mutex<Vec<String>>,
) -> Result<usize, LockError> {
    key_here().await;
    log.lock().unwrap().push("body".to_owned());
    // Names are `Copy`: a block that captures field by field leaves the rest of `a` and `b` behind.
    Ok(b.0.len() + a.0.len())
}

/// Its blocks capture variables as a whole, with the lock as without it.
#[tokio::test]
async fn a_boxed_body_keeps_the_arguments_of_which_it_reads_a_part() {
    let redlock = client().await;
    let log = Mutex::new(Vec::new());
    let noted = |name| Noted(name, &redlock, &log);
    assert_eq!(boxed_drops(&redlock, noted("a"), noted("b"), &log).await.unwrap(), 2);
    assert_eq!(log.into_inner().unwrap(), ["body", "b locked", "a locked"]);
}

#[redis_lock(key = "upper", wait = "0s", client = redlock)]
#[redis_lock(key = "lower", wait = "0s", client = redlock)]
async fn two_locks(redlock: &Redlock) -> Result<usize, LockError> {
    Ok(redlock.held().len())
}

/// From the bottom up: the lower one is asked for first.
#[tokio::test]
async fn two_locks_on_one_function_are_taken_from_the_bottom_up() {
    let redlock = client().await;
    assert_eq!(two_locks(&redlock).await.unwrap(), 2);
    let busy = |outcome| match outcome {
        Err(LockError::Timeout { key, .. }) => key,
        other => panic!("{other:?}"),
    };
    let upper = redlock.lock("upper").acquire().await.unwrap();
    assert_eq!(busy(two_locks(&redlock).await), "upper");
    let _lower = redlock.lock("lower").acquire().await.unwrap();
    assert_eq!(busy(two_locks(&redlock).await), "lower");
    upper.release().await.unwrap();
    assert_eq!(busy(two_locks(&redlock).await), "lower");
}
