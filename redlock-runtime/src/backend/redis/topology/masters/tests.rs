use tokio::sync::mpsc;

use super::super::fake_server::fake_server;
use super::*;
use crate::backend::redis::connection::{address, bulk, value};
use crate::mutex::Mutex;

#[test]
fn the_masters_that_a_server_names_are_connected_to_as_it_is() {
    let of = |url: &str, hosts: &[String]| {
        let masters = (0..).zip(hosts).map(|(slot, host)| {
            let master = format!("*3\r\n{host}\r\n:7001\r\n{}", bulk("id"));
            format!("*3\r\n:{slot}\r\n:{slot}\r\n{master}")
        });
        let masters: Vec<String> = masters.collect();
        let slots = value(&format!("*{}\r\n{}", masters.len(), masters.join("\r\n"))).unwrap();
        let named = named(&slots, "", &address::parse(url, None).unwrap());
        named.map(|masters| masters.iter().map(address::name).collect::<Vec<_>>())
    };
    let secure = of("rediss://u:p@a:1", &[bulk("::1"), bulk("b"), bulk("::1")]).unwrap();
    assert_eq!(secure, ["rediss://[::1]:7001", "rediss://b:7001"]);
    for own in ["", "0.0.0.0", "::"] {
        assert_eq!(of("redis://a:1", &[bulk(own)]).unwrap(), ["redis://a:7001"], "{own}");
    }
    // Each of them may be another one.
    let unnamed = of("redis://a:1", &[bulk("b"), bulk("?"), bulk("?")]).unwrap_err();
    let told = unnamed.to_string();
    assert!(told.contains("slots 1 to 1 does not tell its address"), "{told}");
    assert!(told.contains("`CLUSTER NODES`") && !told.contains("`--cluster`"), "{told}");
    assert!(of("redis://a:1", &[]).is_err());
}

/// What a server says of slots whose masters are at these ports; 0: it cannot tell which.
fn slots_at(ports: &[u16]) -> String {
    let range = |(slot, port): (u16, &u16)| {
        let host = bulk(if *port == 0 { "?" } else { "127.0.0.1" });
        format!("*3\r\n:{slot}\r\n:{slot}\r\n*2\r\n{host}\r\n:{port}\r\n")
    };
    let ranges: String = (0..).zip(ports).map(range).collect();
    format!("*{}\r\n{ranges}", ports.len())
}

/// A server that says so, at which one can subscribe.
async fn server(slots: impl Fn() -> String + Clone + Send + Sync + 'static) -> ConnectionInfo {
    let port = fake_server(move |command| {
        if command.contains("SUBSCRIBE") {
            format!("*3\r\n{}\r\n{}\r\n:1\r\n", bulk("subscribe"), bulk("c"))
        } else if command.contains("SLOTS") {
            slots()
        } else {
            "+OK\r\n".to_owned()
        }
    });
    info_at(port.await)
}

fn info_at(port: u16) -> ConnectionInfo {
    let parsed = address::parse(&format!("redis://127.0.0.1:{port}"), None);
    parsed.unwrap_or_else(|error| panic!("{error}"))
}

fn at(port: u16) -> Address {
    ("127.0.0.1".to_owned(), port)
}

fn port(server: &ConnectionInfo) -> u16 {
    let ConnectionAddr::Tcp(_, port) = server.addr() else { panic!("{server:?}") };
    *port
}

/// The masters of which servers know that say this.
async fn seen(said: &[&'static [u16]]) -> RedisResult<Vec<u16>> {
    let mut seeds = Vec::new();
    for ports in said {
        seeds.push(server(|| slots_at(ports)).await);
    }
    let (_, view) = view(&seeds, &HostLookup::default(), &[], CONNECT).await?;
    Ok(view.masters.iter().map(|master| master.address.1).collect())
}

#[tokio::test]
async fn the_masters_are_those_that_most_servers_name() {
    assert_eq!(seen(&[&[1, 2], &[1, 3], &[1, 2]]).await.unwrap(), [1, 2]);
    assert_eq!(seen(&[&[1, 3], &[1, 2], &[1, 2]]).await.unwrap(), [1, 2]);
    // One that tells addresses says more than two that do not.
    assert_eq!(seen(&[&[0], &[0], &[7], &[0, 0]]).await.unwrap(), [7]);
    assert!(seen(&[&[]]).await.is_err(), "a server that is in no cluster");
}

fn masters_of(seed: ConnectionInfo) -> (Masters, mpsc::UnboundedReceiver<News>) {
    let (news, told) = mpsc::unbounded_channel();
    let masters = Masters {
        seeds: Arc::from([seed]),
        lookup: HostLookup::default(),
        listener: Listener { channel: "c".to_owned(), news, doubts: Arc::default() },
        connections: Vec::new(),
        heard: Heard::default(),
        is_whole: true,
        surveyed: Instant::now(),
    };
    (masters, told)
}

async fn connection(seed: &ConnectionInfo) -> MasterConnection {
    let opened = open(seed, at(port(seed)), "c", &HostLookup::default()).await;
    opened.unwrap_or_else(|error| panic!("{error}"))
}

#[tokio::test]
async fn a_master_that_was_not_listened_to_leaves_a_gap() {
    let seed = server(String::new).await;
    let (mut masters, mut told) = masters_of(seed.clone());
    let mut is_gap = || matches!(told.try_recv(), Ok(News::Gap));
    let found = |connections, deaf, failed| Ok(Survey { connections, deaf, failed });
    let due = |masters: &Masters| masters.next_survey() - masters.surveyed;
    masters.learn(found(vec![connection(&seed).await], Vec::new(), None));
    assert!(is_gap() && due(&masters) == HEARTBEAT && masters.connections.len() == 1);
    masters.learn(found(Vec::new(), Vec::new(), None));
    assert!(!is_gap() && due(&masters) == HEARTBEAT);
    // One cannot be listened to, and no survey has mended that yet.
    for failed in [Some(broken()), None] {
        masters.learn(found(Vec::new(), Vec::new(), failed));
        assert!(!is_gap() && due(&masters) == SOON);
    }
    drop(masters.survey());
    assert_eq!(due(&masters), HEARTBEAT);
    masters.learn(Err(broken()));
    assert_eq!(due(&masters), SOON);
    drop(masters.survey());
    masters.learn(found(Vec::new(), vec![at(port(&seed))], None));
    assert!(is_gap() && due(&masters) == SOON && masters.connections.is_empty());
}

#[tokio::test]
async fn a_connection_that_breaks_leaves_a_gap_and_is_made_anew_soon() {
    let seed = server(String::new).await;
    let (mut masters, mut told) = masters_of(seed.clone());
    masters.connections.push(connection(&seed).await);
    masters.lose(0);
    assert!(matches!(told.try_recv(), Ok(News::Gap)) && masters.connections.is_empty());
    assert_eq!(masters.next_survey() - masters.surveyed, SOON);
    // The same message of two masters is one.
    for is_new in [true, false] {
        masters.pass_on(b"a".to_vec());
        assert_eq!(told.try_recv().is_ok(), is_new);
    }
}

#[tokio::test]
async fn a_survey_connects_to_new_masters_and_says_which_it_cannot_listen_to() {
    let other = server(String::new).await;
    let ports = Arc::new(Mutex::new(vec![port(&other)]));
    let said = Arc::clone(&ports);
    let seed = server(move || slots_at(&said.lock())).await;
    let known = async |known: Vec<(Address, PubSubSink)>| {
        let seeds = Arc::from([seed.clone()]);
        let found = survey(seeds, HostLookup::default(), "c".to_owned(), known).await.unwrap();
        assert!(found.deaf.is_empty());
        (found.connections, found.failed.is_some())
    };
    ports.lock().push(port(&seed));
    let (first, has_failed) = known(Vec::new()).await;
    assert_eq!((first.len(), has_failed), (2, false));
    let sinks = || first.iter().map(|one| (one.address.clone(), one.sink.clone())).collect();
    let (new, has_failed) = known(sinks()).await;
    assert_eq!((new.len(), has_failed), (0, false));
    // The last one has no address, or nobody listens there.
    for unheard in [0, 1] {
        ports.lock().push(unheard);
        let (new, has_failed) = known(sinks()).await;
        assert_eq!((new.len(), has_failed), (0, true), "{unheard}");
        ports.lock().pop();
    }
}
