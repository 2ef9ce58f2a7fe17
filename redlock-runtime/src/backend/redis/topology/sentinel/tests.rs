use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

#[cfg(feature = "tls")]
use deadpool_redis::redis::ConnectionAddr;
use deadpool_redis::redis::ErrorKind;
use tokio::net::TcpListener;

use super::super::fake_server::fake_server;
use super::super::sentinel_vote::Naming;
use super::*;
use crate::backend::redis::connection::{IdentifiedSource, bulk};
use crate::backend::redis::health::ServerIdentity;

fn message(urls: &[&str], master: &str) -> String {
    let urls: Vec<String> = urls.iter().map(|url| (*url).to_owned()).collect();
    let node = RedisNode::watched(&urls, master, None, NodeOptions::default());
    node.map(|node| format!("{node:?}")).unwrap_err().to_string()
}

#[test]
fn a_master_is_a_name_or_a_url_with_it() {
    for bare in ["mymaster", "my/Master:1"] {
        let (name, like) = parse_master(bare, None).unwrap();
        assert_eq!((name.as_str(), like.redis_settings().password()), (bare, None));
    }
    let (name, like) = parse_master("redis://locks:s3cret@my-Master.1/2", None).unwrap();
    let login = like.redis_settings();
    assert_eq!(name, "my-Master.1");
    assert_eq!((login.username(), login.db()), (Some("locks"), 2));
    assert_eq!(login.password(), Some("s3cret"));
}

#[cfg(feature = "tls")]
#[test]
fn a_master_with_tls_is_spoken_to_by_tls() {
    let is_secure = |master: &str| {
        let like = parse_master(master, None).unwrap().1;
        matches!(like.addr(), ConnectionAddr::TcpTls { insecure: false, .. })
    };
    assert!(is_secure("rediss://mymaster"));
    assert!(!is_secure("redis://mymaster") && !is_secure("mymaster"));
}

#[cfg(feature = "tls")]
#[test]
fn with_certificates_all_servers_are_spoken_to_by_tls() {
    let told = |url: &str, master: &str| {
        let urls = ["rediss://a".to_owned(), url.to_owned()];
        let tls = Tls::new();
        RedisNode::watched(&urls, master, Some(&tls), NodeOptions::default())
            .map_or_else(|error| error.to_string(), |node| format!("{node:?}"))
    };
    let good = told("rediss://b", "rediss://u:s3cret@mymaster");
    assert!(good.contains("sentinel mymaster"), "{good}");
    for (url, master, why) in [
        ("rediss://b", "mymaster", "write `rediss://mymaster`"),
        ("rediss://b", "redis://u:s3cret@mymaster", "`redis://***@mymaster` does not use TLS"),
        ("redis://:s3cret@b", "rediss://mymaster", "`redis://***@b` does not use TLS"),
    ] {
        let bad = told(url, master);
        assert!(bad.contains(why) && !bad.contains("s3cret"), "{bad}");
    }
}

/// The master that sentinels name after so many milliseconds, with this epoch, and after how many
/// more it says that it is one. `None`: it cannot be reached.
type Answer = (u64, u16, u64, Option<u64>);

/// The port of the master that is chosen, and after how many milliseconds; `None`: there is none.
async fn chosen_of(answers: &[Answer]) -> (Option<u16>, u64) {
    let (begun, namings) = (Instant::now(), Namings::of(answers.len()));
    let like = parse_master("m", None).unwrap().1;
    let attempt = |(number, answer): (usize, &Answer)| -> ConnectAttempt<'_, ConnectionInfo> {
        let (named, port, epoch, confirmed) = *answer;
        let (namings, like) = (&namings, &like);
        Box::pin(async move {
            sleep(Duration::from_millis(named)).await;
            let address = ("10.0.0.1".to_owned(), port);
            let at = like.clone().set_addr(address::place(like.addr(), &address));
            namings.note(number, &Naming { address, epoch, is_up: true });
            sleep(Duration::from_millis(confirmed.ok_or_else(broken)?)).await;
            Ok(at)
        })
    };
    let race = Race::to_servers(answers.iter().enumerate().map(attempt));
    let master = timeout(CONNECT, chosen(race, &namings)).await.ok().and_then(Result::ok);
    let port = master.and_then(|master| master_address(master.addr())).map(|(_, port)| port);
    (port, u64::try_from(begun.elapsed().as_millis()).unwrap())
}

/// Far sentinels that know of a failover, and a near one that was cut off from them.
#[tokio::test(start_paused = true)]
async fn a_near_sentinel_does_not_decide_before_far_ones_have_answered() {
    let far = [(5, 1, 0, Some(1)), (560, 2, 0, Some(90)), (900, 2, 0, Some(90))];
    assert_eq!(chosen_of(&far).await, (Some(2), 990), "two have named one that says it is one");
    let silent = [(5, 1, 7, Some(1)), (2000, 2, 8, Some(90)), (2000, 2, 8, Some(90))];
    assert_eq!(chosen_of(&silent).await, (Some(1), 1006));
}

#[tokio::test(start_paused = true)]
async fn a_master_that_most_sentinels_name_is_not_kept_back_by_the_others() {
    let (named, silent) = ((5, 1, 7, Some(1)), (2000, 2, 7, Some(1)));
    assert_eq!(chosen_of(&[named, named, silent]).await, (Some(1), 6));
    let another = (9, 2, 7, Some(1));
    assert_eq!(chosen_of(&[named, another, silent]).await, (Some(1), 1006), "the first of equals");
}

/// The client reaches both sides of a partition, but the new master is slow, or out of its reach.
#[tokio::test(start_paused = true)]
async fn a_master_that_was_replaced_is_not_taken_however_slow_the_new_one_is() {
    for epochs in [[7, 8], [0, 0]] {
        let new = |named, confirmed| (named, 2, epochs[1], confirmed);
        let old = (5, 1, epochs[0], Some(1));
        assert_eq!(
            chosen_of(&[old, new(9, Some(3000)), new(9, Some(4000))]).await,
            (Some(2), 3009)
        );
        assert_eq!(chosen_of(&[old, new(9, None), new(9, None)]).await, (None, 9));
        let never = Some(1_000_000);
        assert_eq!(chosen_of(&[old, new(500, never), new(9, never)]).await, (None, 10_000));
    }
    // One that is out of reach, and knows of a later failover than the only other one that answers.
    let frozen = (1_000_000, 2, 8, None);
    assert_eq!(chosen_of(&[(5, 1, 7, Some(1)), (9, 2, 8, None), frozen]).await, (None, 10_000));
}

/// Most sentinels still name the master that has just died.
#[tokio::test(start_paused = true)]
async fn the_first_sentinel_that_knows_of_a_failover_is_enough() {
    let (dead, next) = ((5, 1, 7, None), (40, 2, 8, Some(2)));
    assert_eq!(chosen_of(&[dead, dead, next]).await, (Some(2), 42));
    assert_eq!(chosen_of(&[(5, 1, 7, Some(1_000_000)), dead, next]).await, (Some(2), 1042));
}

/// Its port. `named`: the port of the master that it names as a sentinel; without, it is one.
async fn server(named: Option<Arc<AtomicU16>>) -> u16 {
    let answer = move |command: &str| match &named {
        Some(port) if command.contains("MASTERS") => {
            let port = port.load(Ordering::Relaxed).to_string();
            let flat = ["name", "m", "flags", "master", "ip", "127.0.0.1", "port", &port];
            format!("*1\r\n*8\r\n{}\r\n", flat.map(bulk).join("\r\n"))
        }
        Some(_) if command.contains("ROLE") => {
            format!("*2\r\n{}\r\n*1\r\n{}\r\n", bulk("sentinel"), bulk("m"))
        }
        None if command.contains("ROLE") => {
            format!("*3\r\n{}\r\n:0\r\n*0\r\n", bulk("master"))
        }
        _ => "+OK\r\n".to_owned(),
    };
    fake_server(answer).await
}

/// The client may not ask the servers who they are.
#[tokio::test]
async fn a_connection_to_the_new_master_does_not_hide_one_to_the_old() {
    let (old, new) = (server(None).await, server(None).await);
    let named = Arc::new(AtomicU16::new(old));
    let sentinel = format!("redis://127.0.0.1:{}", server(Some(Arc::clone(&named))).await);
    let (_, sentinels) = Sentinels::each(&[sentinel], "m", None).unwrap();
    let identity = Arc::new(ServerIdentity::new("n".to_owned(), None));
    let source = IdentifiedSource::new(sentinels, "n".into(), &identity);
    let older = source.connect().await.unwrap();
    named.store(new, Ordering::Relaxed);
    let newer = source.connect().await.unwrap();
    let moved = timeout(Duration::from_secs(20), source.inner.moved()).await;
    identity.leave(moved.expect("a connection leads to the old master"));
    assert!(older.met().superseded.is_set() && !newer.met().superseded.is_set());
}

/// The client reaches the sentinels and the old master, which must not renew its leases for ever.
#[tokio::test]
async fn the_old_master_is_left_though_the_new_one_cannot_be_reached() {
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let named = Arc::new(AtomicU16::new(server(None).await));
    let sentinel = format!("redis://127.0.0.1:{}", server(Some(Arc::clone(&named))).await);
    let (_, sentinels) = Sentinels::each(&[sentinel], "m", None).unwrap();
    sentinels.connect().await.unwrap();
    named.store(nobody, Ordering::Relaxed);
    let begun = Instant::now();
    let moved = timeout(Duration::from_secs(20), sentinels.moved()).await;
    moved.expect("the connection to the old master is left");
    assert!(begun.elapsed() >= ROUNDS * PAUSE, "the new one may be reached soon");
    assert!(sentinels.connect().await.is_err());
}

/// It is frozen, and the sentinels replace it while a connection to it is made.
#[tokio::test]
async fn a_silent_master_is_left_once_another_one_is_named() {
    let frozen = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let named = Arc::new(AtomicU16::new(frozen.local_addr().unwrap().port()));
    let sentinel = format!("redis://127.0.0.1:{}", server(Some(Arc::clone(&named))).await);
    let (_, sentinels) = Sentinels::each(&[sentinel], "m", None).unwrap();
    let next = server(None).await;
    let replaced = async {
        let spoken_to = frozen.accept().await.unwrap();
        named.store(next, Ordering::Relaxed);
        spoken_to
    };
    let (master, _frozen) = tokio::join!(sentinels.master(), replaced);
    let master = master_address(master.unwrap().unwrap().addr()).unwrap();
    assert_eq!(master.1, next);
}

/// A server that is cut off behaves alike.
#[tokio::test]
async fn a_frozen_sentinel_does_not_keep_back_what_the_others_say() {
    let frozen = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut ports = vec![frozen.local_addr().unwrap().port()];
    for _ in 0..2 {
        ports.push(server(Some(Arc::default())).await);
    }
    let urls: Vec<_> = ports.iter().map(|port| format!("redis://127.0.0.1:{port}")).collect();
    let (_, sentinels) = Sentinels::each(&urls, "another", None).unwrap();
    let error = sentinels.master().await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MasterNameNotFoundBySentinel, "{error}");
}

#[test]
fn what_cannot_work_says_what_to_write() {
    let twice = message(&["redis://a", "redis://b", "redis://:s3cret@a:6379"], "mymaster");
    assert!(twice.contains("`redis://a:6379` is named twice") && !twice.contains("s3cret"));
    assert!(message(&[], "mymaster").contains("sentinel mymaster: no sentinel is named"));
    assert!(message(&["127.0.0.1:26379"], "mymaster").contains("it needs a scheme"));
    assert!(message(&["redis://127.0.0.1"], "").contains("`mymaster`"));
    assert!(message(&["redis://127.0.0.1"], "my master").contains("`mymaster`"));
    assert!(message(&["redis://127.0.0.1"], "unix:///run/redis").contains("unix socket"));
}

#[test]
fn no_message_shows_a_password() {
    let urls = ["redis://:s3cret@h".to_owned()];
    let node = RedisNode::watched(&urls, "redis://u:s3cret@m", None, NodeOptions::default());
    let mut shown = format!("{:?}", node.unwrap());
    for master in ["u:s3cret@m", "redis://u:s3cret@m:port", "http://u:s3cret@m"] {
        shown += &message(&["redis://127.0.0.1"], master);
    }
    assert!(!shown.contains("s3cret"), "{shown}");
}
