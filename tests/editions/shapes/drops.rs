// Where arguments are dropped: after the body, or before it where the plain function does that.

use std::future::Future;
use std::pin::Pin;
use std::sync::Mutex;

use async_recursion::async_recursion;
use async_trait::async_trait;
use redlock::Redlock;

use crate::support::{Locked, pause, run};

#[derive(Default)]
pub struct Log(Mutex<Vec<&'static str>>);

impl Log {
    pub fn note(&self, what: &'static str) {
        self.0.lock().unwrap().push(what);
    }

    pub fn notes(&self) -> Vec<&'static str> {
        self.0.lock().unwrap().clone()
    }
}

/// The functions read its number only. Where blocks capture field by field, they leave the rest of
/// it behind.
pub struct Guard<'a> {
    pub number: u32,
    name: &'static str,
    log: &'a Log,
}

impl<'a> Guard<'a> {
    pub fn new(name: &'static str, log: &'a Log) -> Guard<'a> {
        Guard { number: 7, name, log }
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.log.note(self.name);
    }
}

#[redis_lock(key = "drops-<b.number>", client = redlock)]
pub async fn by_async(redlock: &Redlock, a: Guard<'_>, b: Guard<'_>, log: &Log) -> Locked<u32> {
    pause().await;
    log.note("body");
    Ok(b.number + a.number)
}

#[redis_lock(key = "drops-<b.number>", client = redlock)]
pub async fn not_read(
    redlock: &Redlock,
    _a: Guard<'_>,
    b: Guard<'_>,
    (_c, mut _d): (Guard<'_>, Guard<'_>),
    log: &Log,
) -> Locked<u32> {
    pause().await;
    log.note("body");
    Ok(2 * b.number)
}

#[redis_lock(key = "drops-<b.number>", client = redlock)]
pub fn by_hand<'a>(
    redlock: &'a Redlock,
    a: Guard<'a>,
    b: Guard<'a>,
    log: &'a Log,
) -> Pin<Box<dyn Future<Output = Locked<u32>> + Send + 'a>> {
    Box::pin(async move {
        pause().await;
        log.note("body");
        Ok(b.number + a.number)
    })
}

#[redis_lock(key = "drops-<b.number>", client = redlock)]
pub fn after_a_macro<'a>(
    redlock: &'a Redlock,
    a: Guard<'a>,
    b: Guard<'a>,
    log: &'a Log,
) -> Pin<Box<dyn Future<Output = Locked<u32>> + Send + 'a>> {
    let _local = Guard::new("local", log);
    assert_eq!(a.number, b.number);
    Box::pin(async move {
        pause().await;
        log.note("body");
        Ok(b.number + a.number)
    })
}

#[redis_lock(key = "drops", client = redlock)]
#[allow(clippy::manual_async_fn)]
pub fn without_a_box<'a>(
    redlock: &'a Redlock,
    a: Guard<'a>,
    b: Guard<'a>,
    log: &'a Log,
) -> impl Future<Output = Locked<u32>> + 'a {
    async move {
        pause().await;
        log.note("body");
        Ok(b.number + a.number)
    }
}

#[redis_lock(key = "drops-<first>-<guard.number>", client = redlock)]
pub fn with_another_name<'a>(
    redlock: &'a Redlock,
    (first, a): (u32, Guard<'a>),
    b: Guard<'a>,
    log: &'a Log,
) -> Pin<Box<dyn Future<Output = Locked<u32>> + Send + 'a>> {
    Box::pin(async move {
        let guard = b;
        pause().await;
        log.note("body");
        Ok(guard.number + a.number + first)
    })
}

// It has to compile: what the handler reads stays where it is when the body has taken its part.
#[redis_lock(key = "drops", client = redlock, on_error = |_| a.number)]
pub fn with_a_handler<'a>(
    redlock: &'a Redlock,
    a: Guard<'a>,
    log: &'a Log,
) -> Pin<Box<dyn Future<Output = u32> + Send + 'a>> {
    Box::pin(async move {
        pause().await;
        log.note("body");
        a.number
    })
}

#[async_recursion]
#[redis_lock(key = "drops-<b.number>", client = redlock)]
pub async fn recursive<'a>(
    redlock: &'a Redlock,
    a: Guard<'a>,
    b: Guard<'a>,
    log: &'a Log,
) -> Locked<u32> {
    pause().await;
    log.note("body");
    Ok(b.number + a.number)
}

#[async_trait]
pub trait Boxed {
    async fn boxed(redlock: &Redlock, a: Guard<'_>, b: Guard<'_>, log: &Log) -> Locked<u32>;
    async fn not_read(redlock: &Redlock, a: Guard<'_>, b: Guard<'_>, log: &Log) -> Locked<u32>;
}

#[async_trait]
impl Boxed for () {
    #[redis_lock(key = "drops-<b.number>", client = redlock)]
    async fn boxed(redlock: &Redlock, a: Guard<'_>, b: Guard<'_>, log: &Log) -> Locked<u32> {
        pause().await;
        log.note("body");
        Ok(b.number + a.number)
    }

    #[redis_lock(key = "drops", client = redlock)]
    async fn not_read(redlock: &Redlock, a: Guard<'_>, _b: Guard<'_>, log: &Log) -> Locked<u32> {
        pause().await;
        log.note("body");
        Ok(2 * a.number)
    }
}

/// What each of them does, in its order.
pub fn all(redlock: &Redlock) -> Vec<(&'static str, Vec<&'static str>)> {
    let mut all = Vec::new();
    macro_rules! note {
        ($name:expr, $log:ident, $a:ident, $b:ident, $call:expr) => {
            let $log = Log::default();
            let ($a, $b) = (Guard::new("a", &$log), Guard::new("b", &$log));
            assert_eq!(run($call).unwrap(), 14);
            all.push(($name, $log.notes()));
        };
    }
    note!("async", log, a, b, by_async(redlock, a, b, &log));
    note!("by hand", log, a, b, by_hand(redlock, a, b, &log));
    note!("after a macro", log, a, b, after_a_macro(redlock, a, b, &log));
    note!("without a box", log, a, b, without_a_box(redlock, a, b, &log));
    note!("another name", log, a, b, with_another_name(redlock, (0, a), b, &log));
    note!("recursive", log, a, b, recursive(redlock, a, b, &log));
    let guards = |log| (Guard::new("c", log), Guard::new("d", log));
    note!("not read", log, a, b, not_read(redlock, a, b, guards(&log), &log));
    note!("boxed, not read", log, a, b, <()>::not_read(redlock, a, b, &log));
    note!("boxed", log, a, b, <()>::boxed(redlock, a, b, &log));
    all
}
