//! `key`: what is written in the template is what stands in Redis.

use std::fmt::{self, Display};
use std::sync::{Arc, Mutex};

use redlock::{InvalidKeyReason, LockError, Redlock, redis_lock};
use tokio::sync::Barrier;

use crate::clients::{client, global, key_here, raw};
use crate::support::{Server, secs};

/// The key of a call, and what its body had.
type Found<T> = Result<(String, T), LockError>;

struct Order {
    id: u64,
    items: Vec<String>,
    pair: (u32, u32),
}

impl Order {
    const KIND: &'static str = "order";

    fn first(&self) -> &str {
        &self.items[0]
    }

    #[redis_lock(key = "<Self::KIND>-<self.id>")]
    async fn of_self(&self) -> Result<String, LockError> {
        Ok(key_here().await)
    }
}

fn order() -> Order {
    Order { id: 7, items: vec!["pen".into(), "ink".into()], pair: (3, 4) }
}

#[redis_lock(key = "all-orders")]
async fn literal() -> Result<String, LockError> {
    Ok(key_here().await)
}

#[redis_lock(key = "stock-<id>")]
async fn one_value(id: impl Display) -> Result<String, LockError> {
    Ok(key_here().await)
}

#[redis_lock(key = "<order.id>/<order.items[1]>/<order.pair.1>/<order.first()>/<Order::KIND>")]
async fn places(order: &Order) -> Result<String, LockError> {
    Ok(key_here().await)
}

#[redis_lock(key = "<id:05>-<id:#x>-<name:?>-<(id > 3)>")]
async fn formats(id: u64, name: &str) -> Result<String, LockError> {
    Ok(key_here().await)
}

#[redis_lock(key = "a<<b>>-<id>")]
async fn escapes(id: u64) -> Result<String, LockError> {
    Ok(key_here().await)
}

#[redis_lock(key = "{shop}-<id>")]
async fn hash_tag(id: u64) -> Result<String, LockError> {
    Ok(key_here().await)
}

#[redis_lock(key = format!("report-{}", day.to_uppercase()))]
async fn expression(day: &str) -> Result<String, LockError> {
    Ok(key_here().await)
}

#[redis_lock(key = "<a>-<b>")]
async fn pair<T: Display, U: Display>(a: T, b: U) -> Result<String, LockError> {
    Ok(key_here().await)
}

#[redis_lock(key = "<a><b>")]
async fn adjacent(a: &str, b: &str) -> Result<String, LockError> {
    Ok(key_here().await)
}

#[redis_lock(key = "pat-<x>-<y>-<id>")]
async fn patterns((x, y): (u32, u32), Order { id, .. }: Order) -> Result<String, LockError> {
    Ok(key_here().await)
}

#[tokio::test]
async fn templates_are_rendered_into_redis_as_written() {
    global().await;
    assert_eq!(literal().await.unwrap(), "all-orders");
    assert_eq!(one_value(42).await.unwrap(), "stock-42");
    assert_eq!(one_value("a-b c/\u{e9}").await.unwrap(), "stock-a-b c/\u{e9}");
    assert_eq!(places(&order()).await.unwrap(), "7/ink/4/pen/order");
    assert_eq!(formats(9, "pen").await.unwrap(), "00009-0x9-\"pen\"-true");
    assert_eq!(escapes(1).await.unwrap(), "a<b>-1");
    assert_eq!(expression("mon").await.unwrap(), "report-MON");
    assert_eq!(order().of_self().await.unwrap(), "order-7");
    assert_eq!(patterns((1, 2), order()).await.unwrap(), "pat-1-2-7");
}

#[tokio::test]
async fn values_with_the_delimiter_do_not_meet() {
    global().await;
    assert_eq!(pair("1-2", 3).await.unwrap(), "1%2D2-3");
    assert_eq!(pair(1, "2-3").await.unwrap(), "1-2%2D3");
    let mut keys = Vec::new();
    for (a, b) in [("1", "23"), ("12", "3"), ("1:2", "3"), ("1", "2:3"), ("1%3A2", "3")] {
        keys.push(adjacent(a, b).await.unwrap());
    }
    let all = keys.len();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), all, "{keys:?}");
}

#[redis_lock(key = "meet-<a>-<b>", wait = "forever", client = redlock)]
async fn meets(redlock: &Redlock, a: &str, b: &str, met: &Barrier) -> Result<(), LockError> {
    tokio::time::timeout(secs(20), met.wait()).await.expect("the other one is let in, too");
    Ok(())
}

/// Not only other names: both are inside at the same time.
#[tokio::test]
async fn different_arguments_run_at_once() {
    let client = client().await;
    let met = Barrier::new(2);
    let (one, two) =
        tokio::join!(meets(&client, "1-2", "3", &met), meets(&client, "1", "2-3", &met));
    one.and(two).unwrap();
}

#[tokio::test]
async fn equal_arguments_exclude_each_other() {
    let client = client().await;
    let met = Arc::new(Barrier::new(2));
    let inside = client.clone();
    let shared = met.clone();
    let first = tokio::spawn(async move { meets(&inside, "1", "2", &shared).await });
    crate::support::eventually(secs(10), || async { !client.held().is_empty() }).await;
    let (name, held) = ("meet-1-2", client.held());
    assert_eq!(held.iter().map(redlock::HeldLock::key).collect::<Vec<_>>(), [name]);
    assert!(client.lock(name).try_acquire().await.unwrap().is_none());
    met.wait().await;
    first.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_hash_tag_stays_and_its_helper_keys_share_it() {
    let prefix = global().await.lock("x").acquire().await.unwrap();
    let prefix = prefix.lease().redis_key().strip_suffix('x').unwrap().to_owned();
    assert_eq!(hash_tag(5).await.unwrap(), "{shop}-5");
    let marks = raw().await.keys(&format!("{prefix}*:mark:fence")).await;
    // Any server of a cluster can say where a key belongs.
    let cluster = Server::builder().config("cluster-enabled yes").start().await;
    let slot = async |key: &str| cluster.raw().int(&["CLUSTER", "KEYSLOT", key]).await;
    let own = slot(&format!("{prefix}{{shop}}-5")).await;
    let mut is_there = false;
    for mark in marks {
        is_there |= slot(&mark).await == own;
    }
    assert!(is_there, "a mark in slot {own}");
}

#[tokio::test]
async fn a_value_cannot_forge_a_hash_tag() {
    global().await;
    assert_eq!(one_value("{x}%").await.unwrap(), "stock-%7Bx%7D%25");
}

#[derive(Clone, Copy)]
struct Counter(u64);

impl Counter {
    fn next(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }
}

/// The key is evaluated once, and the body has what it left of a `mut` argument.
#[tokio::test]
#[deny(unused_mut)]
async fn the_body_sees_an_argument_as_the_key_left_it() {
    type Ids = std::vec::IntoIter<u64>;

    #[redis_lock(key = "<ids.next().unwrap_or_default()>-<name>", client = redlock)]
    async fn only_read(redlock: &Redlock, mut ids: Ids, name: String) -> Found<Vec<u64>> {
        let key = format!("{name}: {}", key_here().await);
        Ok((key, ids.collect()))
    }
    #[redis_lock(key = "<ids.as_slice().len()>-<name>", client = redlock)]
    async fn changed(redlock: &Redlock, mut ids: Ids, mut name: String) -> Found<Option<u64>> {
        name.push_str(": ");
        name.push_str(&key_here().await);
        Ok((name, ids.next()))
    }
    #[redis_lock(key = format!("{}-{name}", count.next()), client = redlock)]
    async fn copied(redlock: &Redlock, mut count: Counter, name: String) -> Found<u64> {
        Ok((format!("{name}: {}", key_here().await), count.0))
    }
    #[redis_lock(key = "<count.next()>-<&mut name>", client = redlock)]
    async fn borrowed(redlock: &Redlock, mut count: Counter, mut name: String) -> Found<u64> {
        Ok((format!("{name}: {}", key_here().await), count.0))
    }
    let (client, ids, name) = (client().await, || vec![7, 8, 9].into_iter(), || "a".to_owned());
    let (key, left) = only_read(&client, ids(), name()).await.unwrap();
    assert_eq!((&*key, left), ("a: 7-a", vec![8, 9]));
    let (key, next) = changed(&client, ids(), name()).await.unwrap();
    assert_eq!((&*key, next), ("a: 3-a", Some(7)));
    let (key, count) = copied(&client, Counter(0), name()).await.unwrap();
    assert_eq!((&*key, count), ("a: 1-a", 1));
    let (key, count) = borrowed(&client, Counter(4), name()).await.unwrap();
    assert_eq!((&*key, count), ("a: 5-a", 5));
}

#[redis_lock(key = "<hash[..n]>/<hash[n..]>")]
async fn halves(hash: String, n: usize) -> Result<String, LockError> {
    Ok(key_here().await)
}

#[tokio::test]
async fn an_argument_may_be_the_end_of_a_range() {
    global().await;
    assert_eq!(halves("abcdef".to_owned(), 2).await.unwrap(), "ab/cdef");
}

/// The guard of one placeholder is dropped before the next one is read.
#[tokio::test]
async fn every_placeholder_may_take_the_same_mutex() {
    #[redis_lock(
        key = "<account.try_lock().unwrap().0>-<account.try_lock().unwrap().1:02>",
        client = redlock
    )]
    async fn pay(redlock: &Redlock, account: &Mutex<(u8, u8)>) -> Result<String, LockError> {
        Ok(key_here().await)
    }
    let account = Mutex::new((1, 2));
    assert_eq!(pay(&client().await, &account).await.unwrap(), "1-02");
}

/// A string of `format!` in a placeholder names arguments as it does elsewhere.
#[tokio::test]
async fn a_macro_in_a_placeholder_captures_arguments() {
    #[redis_lock(key = "<format!(\"{id:>5}\").trim()>/<format!(\"{name}\")>", client = redlock)]
    async fn captured(redlock: &Redlock, id: u8, name: String) -> Found<String> {
        Ok((key_here().await, name))
    }
    let found = captured(&client().await, 7, "a".to_owned()).await.unwrap();
    assert_eq!(found, ("7/a".to_owned(), "a".to_owned()));
}

struct Broken;

impl Display for Broken {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Err(fmt::Error)
    }
}

#[redis_lock(key = "never-<value>", client = redlock)]
async fn never(redlock: &Redlock, value: impl Display) -> Result<(), LockError> {
    panic!("the body ran with a bad key")
}

#[tokio::test]
async fn bad_values_are_errors_of_the_call() {
    let client = client().await;
    let cases: [(Box<dyn Display + Send + Sync>, InvalidKeyReason); 5] = [
        (Box::new(""), InvalidKeyReason::EmptyValue("value")),
        (Box::new("a\r\nb"), InvalidKeyReason::ControlCharacter('\r')),
        (Box::new("x".repeat(1019)), InvalidKeyReason::TooLong(1025)),
        (Box::new("a:fence"), InvalidKeyReason::ReservedSuffix(":fence")),
        (Box::new(Broken), InvalidKeyReason::Display),
    ];
    for (value, expected) in cases {
        match never(&client, value).await.unwrap_err() {
            LockError::InvalidKey { reason, .. } => assert_eq!(reason, expected),
            other => panic!("{expected:?}: {other:?}"),
        }
    }
}

#[redis_lock(key = value, client = redlock)]
async fn never_expression(redlock: &Redlock, value: &str) -> Result<(), LockError> {
    panic!("the body ran with a bad key")
}

#[tokio::test]
async fn bad_expressions_are_errors_of_the_call() {
    let client = client().await;
    for value in ["", "a\0", "a}b", &"x".repeat(1025)] {
        let error = never_expression(&client, value).await.unwrap_err();
        assert!(matches!(error, LockError::InvalidKey { .. }), "{error:?}");
    }
}

/// Rendered at the first poll, from the arguments as they were given.
#[tokio::test]
async fn the_body_may_consume_what_the_key_was_made_of() {
    #[redis_lock(key = "owned-<name>", client = redlock)]
    async fn owned(redlock: &Redlock, name: String) -> Result<(String, String), LockError> {
        let key = key_here().await;
        Ok((name, key))
    }
    let (name, key) = owned(&client().await, "a".to_owned()).await.unwrap();
    assert_eq!((&*name, &*key), ("a", "owned-a"));
}
