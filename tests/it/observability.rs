//! What operators and users see: a span around the body, one event for each turn of a lease, and
//! nothing above DEBUG while all is well.

use redlock::{Lease, LeaseState, LockError, LostReason, Redlock, Wait, redis_lock};
use tracing::Level;

use crate::clients::client;
use crate::support::events::{Capture, Event};
use crate::support::proxy::{Then, contains};
use crate::support::{Proxy, Server, capture, eventually, secs, unique_prefix};

#[redis_lock(key = "<key>", client = redlock)]
async fn quiet(redlock: &Redlock, key: &str) -> Result<String, LockError> {
    tracing::debug!("from the body");
    tokio::task::yield_now().await;
    tracing::debug!("from the body, later");
    Ok(Lease::current().unwrap().fencing_token().to_string())
}

#[redis_lock(key = "<key>", expire = "6s", client = redlock)]
async fn long(redlock: &Redlock, key: &str) -> Result<(), LockError> {
    let lease = Lease::current().unwrap();
    eventually(secs(30), || async { lease.renewals() >= 2 }).await;
    Ok(())
}

#[redis_lock(key = "<key>", expire = "6s", client = redlock)]
async fn endless(redlock: &Redlock, key: &str) -> Result<(), LockError> {
    std::future::pending().await
}

/// Messages of the library about a key, in order.
fn messages(captured: &Capture, key: &str) -> Vec<String> {
    let events = captured.about(key).into_iter();
    events.filter(|event| event.target.starts_with("redlock")).map(|event| event.message).collect()
}

#[track_caller]
fn assert_quiet(captured: &Capture, key: &str) {
    let loud: Vec<Event> =
        captured.about(key).into_iter().filter(|event| event.level < Level::DEBUG).collect();
    assert!(loud.is_empty(), "{loud:?}");
}

#[tokio::test]
async fn a_span_says_which_lock_the_body_runs_under() {
    let (redlock, captured, key) = (client().await, capture(), unique_prefix());
    let fencing_token = quiet(&redlock, &key).await.unwrap();
    for message in ["from the body", "from the body, later"] {
        let event = captured.wait_for(secs(5), &key, message).await;
        let span = event.spans.last().expect("a span around the body");
        assert_eq!(span.name, "redlock");
        assert_eq!(span.fields.get("key"), Some(&*key));
        assert_eq!(span.fields.get("template"), Some("<key>"));
        assert_eq!(span.fields.get("fencing_token"), Some(&*fencing_token));
        assert!(span.fields.get("waited").is_some(), "{span:?}");
    }
}

/// In the order of their keys, as the span of several keys shows them.
fn in_order(mut keys: [&str; 2]) -> String {
    keys.sort_unstable();
    format!("{keys:?}")
}

#[tokio::test]
async fn bodies_without_the_attribute_have_the_span_as_well() {
    let (redlock, captured, key) = (client().await, capture(), unique_prefix());
    let other = format!("{key}-too");
    let say = async |what: &'static str| {
        tokio::task::yield_now().await;
        tracing::debug!("{what}");
    };
    let lock = || redlock.lock(&key).label("import");
    lock().run(say("from run")).await.unwrap();
    let guard = lock().acquire().await.unwrap();
    let inner = redlock.lock(&key).label("inner");
    guard
        .protect(async {
            say("from protect").await;
            inner.run(say("from a call within")).await
        })
        .await
        .unwrap()
        .unwrap();
    guard.release().await.unwrap();
    lock().lead(|_| say("from lead")).await.unwrap();
    let all = redlock.lock_all([&*key, &*other]).label("transfer");
    all.run(say("from several keys")).await.unwrap();
    for (message, template, depth) in [
        ("from run", "import", 1),
        ("from protect", "import", 1),
        ("from a call within", "inner", 2),
        ("from lead", "import", 1),
        ("from several keys", "transfer", 1),
    ] {
        let event = captured.wait_for(secs(5), &key, message).await;
        assert_eq!(event.spans.len(), depth, "{event}");
        let fields = &event.spans[depth - 1].fields;
        assert_eq!(event.spans[depth - 1].name, "redlock");
        assert_eq!(fields.get("template"), Some(template), "{event}");
        for field in ["key", "fencing_token", "waited"] {
            assert!(fields.get(field).is_some(), "{field} in {event}");
        }
        assert_eq!(fields.get("waited") == Some("0ns"), depth == 2, "{event}");
        let keys = (template == "transfer").then(|| in_order([&key, &other]));
        assert_eq!(fields.get("keys"), keys.as_deref(), "{event}");
    }
}

#[tokio::test]
async fn the_happy_path_is_told_at_debug_only() {
    let (redlock, captured, key) = (client().await, capture(), unique_prefix());
    quiet(&redlock, &key).await.unwrap();
    captured.wait_for(secs(20), &key, "lock released").await;
    assert_eq!(messages(&captured, &key), ["lock acquired", "lock released"]);
    let acquired = captured.wait_for(secs(5), &key, "lock acquired").await;
    assert_eq!(acquired.field("key"), Some(&*key));
    assert_eq!(acquired.field("attempts"), Some("1"));
    assert!(acquired.field("waited").is_some() && acquired.field("fencing_token").is_some());
    let released = captured.wait_for(secs(5), &key, "lock released").await;
    assert_eq!(released.field("released"), Some("Released"));
    assert_quiet(&captured, &key);
}

#[tokio::test]
async fn renewals_are_told_one_by_one() {
    let (redlock, captured, key) = (client().await, capture(), unique_prefix());
    long(&redlock, &key).await.unwrap();
    let is_renewal = |message: &&String| *message == "lease renewed";
    // A renewal counts a moment before it is told.
    let renewals = || messages(&captured, &key).iter().filter(is_renewal).count();
    eventually(secs(20), || async { renewals() >= 2 }).await;
    let event = captured.wait_for(secs(5), &key, "lease renewed").await;
    assert_eq!((event.field("key"), event.field("renewals")), (Some(&*key), Some("1")));
    assert_quiet(&captured, &key);
}

#[tokio::test]
async fn a_busy_lock_is_an_error_of_the_call_and_no_noise() {
    let (redlock, captured, key) = (client().await, capture(), unique_prefix());
    let guard = redlock.lock(&key).acquire().await.unwrap();
    redlock.lock(&key).wait(Wait::Never).acquire().await.unwrap_err();
    quiet_timeout(&redlock, &key).await.unwrap_err();
    drop(guard);
    assert_quiet(&captured, &key);
}

#[redis_lock(key = "<key>", wait = "20ms", client = redlock)]
async fn quiet_timeout(redlock: &Redlock, key: &str) -> Result<(), LockError> {
    Ok(())
}

/// Doubt, a retry that mends it, doubt again, and the end.
#[tokio::test]
async fn doubt_and_loss_are_told_with_their_reasons() {
    let proxy = Proxy::start(Server::shared().await);
    let redlock = Redlock::builder().url(proxy.url()).prefix(unique_prefix()).build().await;
    let (redlock, captured, key) = (redlock.unwrap(), capture(), unique_prefix());
    let loading = || Then::Answer(b"-LOADING Redis is loading the dataset in memory\r\n".to_vec());
    let (client, name) = (redlock.clone(), key.clone());
    let call = tokio::spawn(async move { endless(&client, &name).await });
    captured.wait_for(secs(10), &key, "lock acquired").await;
    proxy.when(contains(&key), loading());
    let doubt = captured.wait_for(secs(20), &key, "lease uncertain").await;
    assert_eq!((doubt.level, doubt.field("key")), (Level::DEBUG, Some(&*key)));
    let nodes = doubt.field("nodes").unwrap();
    // On a busy machine the first connection for renewals may come late.
    assert!(nodes.contains("LOADING") || nodes.contains("no connection within"), "{doubt}");
    captured.wait_for(secs(20), &key, "lease renewed").await;
    assert_eq!(redlock.held()[0].state(), LeaseState::Held);
    let tries = proxy.always(contains(&key), loading());
    let lost = captured.wait_for(secs(20), &key, "lease lost").await;
    assert_eq!(lost.level, Level::WARN);
    assert_eq!(lost.field("reason"), Some("no renewal was confirmed in time"));
    assert!(lost.field("renewals").is_some() && lost.field("held_for").is_some(), "{lost}");
    let stopped = captured.wait_for(secs(20), &key, "body stopped").await;
    assert_eq!(stopped.level, Level::DEBUG);
    assert!(stopped.field("why").unwrap().contains("was lost after"), "{stopped}");
    match call.await.unwrap().unwrap_err() {
        LockError::Lost { reason, .. } => assert_eq!(reason, LostReason::Unreachable),
        other => panic!("{other:?}"),
    }
    let doubts = messages(&captured, &key);
    let doubts = doubts.iter().filter(|message| message.contains("uncertain")).count();
    let tries = tries.count();
    assert!((2..=tries / 2).contains(&doubts), "{doubts} spells, not one for each of {tries}");
}

/// The caller is told by an error; a release that nobody waits for has only the log.
#[tokio::test]
async fn what_nobody_is_told_otherwise_is_a_warning() {
    let proxy = Proxy::start(Server::shared().await);
    let redlock = Redlock::builder().url(proxy.url()).prefix(unique_prefix()).build().await;
    let (redlock, captured, key) = (redlock.unwrap(), capture(), unique_prefix());
    let mut guards = Vec::new();
    for n in 0..5 {
        let lock = redlock.lock(format!("{key}-{n}")).label("unreleased");
        guards.push(lock.acquire().await.unwrap());
    }
    proxy.always(contains(&key), Then::Answer(b"-NOPERM no permission\r\n".to_vec()));
    drop(guards);
    let warning = captured.wait_for(secs(20), &key, "could not be released").await;
    assert_eq!(warning.level, Level::WARN);
    assert!(warning.field("nodes").unwrap().contains("docs/security.md"), "{warning}");
    // Of many of them the sum is told.
    let sum = captured.wait_for(secs(20), "unreleased", "more locks could not be released").await;
    assert_eq!((sum.level, sum.field("templates")), (Level::WARN, Some("unreleased: 2")));
}

/// Every policy but `noeviction` may delete locks that are held.
#[tokio::test]
async fn a_server_that_may_evict_locks_is_a_warning() {
    let captured = capture();
    let server = Server::builder().maxmemory_policy("allkeys-lru").start().await;
    let redlock = Redlock::connect(server.url()).await.expect("a warning, not an error");
    let warnings = captured.warnings_about(&server.addr().to_string());
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].message.contains("CONFIG SET maxmemory-policy noeviction"));
    assert_eq!(warnings[0].field("policy"), Some("allkeys-lru"));
    redlock.lock("k").acquire().await.unwrap().release().await.unwrap();
}
