use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

#[cfg(feature = "tls")]
use deadpool_redis::redis::ConnectionAddr;
use deadpool_redis::redis::ErrorKind;
use tokio::net::TcpListener;

use super::super::fake_server::fake_server;
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

/// Far sentinels that know of a failover, and a near one that was cut off from them.
#[tokio::test(start_paused = true)]
async fn a_near_sentinel_does_not_decide_before_far_ones_have_answered() {
    let attempt = |(millis, said): (u64, char)| -> ConnectAttempt<'static, char> {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(millis)).await;
            Ok(said)
        })
    };
    let race = Race::to_servers([(5, 'a'), (560, 'b'), (980, 'b')].map(attempt));
    let said = votes(race, 3, |_| GRACE, |one, other| one == other).await.unwrap();
    assert!(said.iter().any(|same| is_majority(same.len(), 3)), "{said:?}");
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
    assert!(message(&[], "mymaster").contains("sentinel mymaster: no sentinel is named"));
    assert!(message(&["127.0.0.1:26379"], "mymaster").contains("it needs a scheme"));
    assert!(message(&["redis://127.0.0.1"], "").contains("`mymaster`"));
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
