//! Certificates of one's own with sentinels and with a cluster.

use redlock::{LockError, NodeErrorKind, NodeHealth, Redlock, RedlockBuilder, Released, Tls, Wait};

use crate::certificates::Trusted;
use crate::support::{
    Authority, Certificate, Cluster, Raw, Sentinels, Server, eventually, lines_of, secs, within,
};

const MASTER: &str = "rediss://mymaster";

/// An authority of which the servers have certificates, and ask clients for one; and the one of a
/// client.
fn authority() -> (Authority, Certificate) {
    let ours = Authority::new("ours");
    let own = ours.sign("client", &["client"], 4096);
    (ours, own)
}

fn settings(ours: &Authority) -> Vec<String> {
    ours.settings(&ours.certify(), true)
}

fn tls(ours: &Authority, own: &Certificate) -> Tls {
    ours.trust().client_cert_pem(&own.chain, &own.key)
}

/// Over TLS, and by the servers' own account.
async fn whole_life(redlock: &Redlock, raw: &Raw) {
    let guard = redlock.lock("stock-42").expire(secs(6)).acquire().await.unwrap();
    assert_eq!(raw.get("lock:stock-42").await.as_deref(), Some(guard.owner()));
    assert!(redlock.lock("stock-42").try_acquire().await.unwrap().is_none());
    eventually(secs(20), || async { guard.renewals() >= 1 }).await;
    guard.check().unwrap();
    assert_eq!(guard.release().await, Ok(Released::Released));
    assert_eq!(raw.get("lock:stock-42").await, None);
}

/// A waiter listens for signals at each of these servers, and has the lock in its turn.
async fn waits_for_a_signal(builder: &RedlockBuilder, masters: &[&Server]) {
    let holder = builder.clone().build().await.unwrap();
    let waiter = builder.clone().build().await.unwrap();
    let guard = holder.lock("queued").expire(secs(60)).acquire().await.unwrap();
    let waiting = tokio::spawn(waiter.lock("queued").wait(secs(50)).acquire());
    for master in masters {
        let raw = master.raw();
        let listens = || async {
            let channels = raw.cmd(&["PUBSUB", "CHANNELS", "redlock:*"]).await;
            !lines_of(channels).is_empty()
        };
        eventually(secs(30), listens).await;
    }
    guard.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

async fn is_usable(redlock: &Redlock, servers: usize) {
    let health = redlock.health().await;
    assert!(health.nodes().iter().all(NodeHealth::is_usable), "{health:?}");
    assert_eq!(health.nodes().len(), servers, "{health:?}");
}

/// Refused at startup, and by a client that was built without asking: at once, as waiting does
/// not help.
async fn is_refused(builder: RedlockBuilder) {
    let early = builder.clone().build().await.unwrap_err();
    let lazy = builder.lazy().build().await.unwrap();
    let acquire = lazy.lock("k").wait(Wait::Forever).acquire();
    let late = within(secs(60), acquire).await.map(drop).unwrap_err();
    for error in [early, late] {
        let LockError::Unavailable { nodes, .. } = &error else { panic!("{error:?}") };
        assert_eq!(nodes[0].kind(), NodeErrorKind::Tls, "{error}");
        assert!(error.to_string().contains("UnknownIssuer"), "{error}");
    }
}

fn is_hidden(own: &Certificate, shown: &str) {
    let mut secret = own.key.lines().filter(|line| !line.starts_with("---"));
    assert!(!secret.any(|line| shown.contains(&line[..16])), "{shown}");
    // As numbers, which is how a list of bytes is shown.
    let numbers = format!("{:?}", &own.key.as_bytes()[30..38]);
    assert!(!shown.contains(numbers.trim_matches(['[', ']'])), "{shown}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_and_their_master_are_spoken_to_by_tls() {
    let (ours, own) = authority();
    let set = Sentinels::start_over_tls(secs(60), &settings(&ours)).await;
    let builder = |tls| Redlock::builder().sentinel(set.tls_urls(), MASTER).tls(tls);
    let good = builder(tls(&ours, &own));
    let redlock = good.clone().build().await.unwrap();
    let old = set.master().await;
    whole_life(&redlock, &old.raw()).await;
    waits_for_a_signal(&good, &[old]).await;
    is_usable(&redlock, 1).await;
    is_refused(builder(tls(&Authority::new("theirs"), &own))).await;
    is_hidden(&own, &format!("{good:?} {redlock:?}"));

    let guard = redlock.lock("long").expire(secs(12)).acquire().await.unwrap();
    // WAIT counts what its own connection has written: something behind the lock.
    let raw = old.raw();
    raw.cmd(&["SET", "behind", "v"]).await;
    assert_eq!(raw.int(&["WAIT", "2", "20000"]).await, 2);
    let new = set.failover().await;
    let before = guard.renewals();
    eventually(secs(60), || async { guard.renewals() > before || guard.check().is_err() }).await;
    guard.check().unwrap();
    assert_eq!(new.raw().get("lock:long").await.as_deref(), Some(guard.owner()));
    assert_eq!(guard.release().await, Ok(Released::Released));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_servers_of_a_cluster_are_spoken_to_by_tls() {
    let (ours, own) = authority();
    let cluster = Cluster::start_over_tls(secs(60), &settings(&ours)).await;
    // The others are found.
    let builder = |tls| Redlock::builder().cluster(&cluster.tls_urls()[..2]).tls(tls);
    let good = builder(tls(&ours, &own));
    let redlock = good.clone().build().await.unwrap();
    whole_life(&redlock, &cluster.raw()).await;
    waits_for_a_signal(&good, &cluster.masters().await).await;
    is_usable(&redlock, 3).await;
    for n in 0..20 {
        redlock.lock(format!("k-{n}")).run(async {}).await.unwrap();
    }
    is_refused(builder(tls(&Authority::new("theirs"), &own))).await;
    is_hidden(&own, &format!("{good:?} {redlock:?}"));

    let guard = redlock.lock("long").expire(secs(12)).acquire().await.unwrap();
    let new = cluster.fail_over("lock:long").await;
    let before = guard.renewals();
    eventually(secs(60), || async { guard.renewals() > before || guard.check().is_err() }).await;
    guard.check().unwrap();
    assert_eq!(new.raw().get("lock:long").await.as_deref(), Some(guard.owner()));
    assert_eq!(guard.release().await, Ok(Released::Released));
}

#[tokio::test]
async fn what_would_not_be_encrypted_is_refused() {
    let tls = Authority::new("ours").trust();
    let (secure, plain) = ("rediss://127.0.0.1:1", "redis://:s3cret@127.0.0.1:2");
    let builder = || Redlock::builder().tls(tls.clone()).lazy();
    for (builder, why) in [
        (builder().sentinel([secure], "mymaster"), "write `rediss://mymaster`"),
        (builder().sentinel([secure, plain], MASTER), "`redis://***@127.0.0.1:2` does not use TLS"),
        (
            builder().sentinel([secure], "redis://:s3cret@mymaster"),
            "`redis://***@mymaster` does not use TLS",
        ),
        (builder().cluster([secure, plain]), "`redis://***@127.0.0.1:2` does not use TLS"),
    ] {
        let error = builder.build().await.unwrap_err();
        assert!(matches!(error, LockError::Config { .. }), "{error:?}");
        let told = error.to_string();
        assert!(told.contains(why) && !told.contains("s3cret"), "{told}");
    }
}
