//! Every fault of the proxy does to a real server's client what its name says.

use std::time::Instant;

use deadpool_redis::redis::aio::MultiplexedConnection;
use deadpool_redis::redis::{self, Client, RedisResult};

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::support::proxy::{Proxy, Then, any, command, command_name, contains, frame_len};
use crate::support::{Server, eventually, ms, secs, unique_prefix, within};

/// A connection by way of a proxy, a direct one, and a key of this test.
struct Wire {
    proxy: Proxy,
    server: &'static Server,
    key: String,
}

impl Wire {
    async fn start() -> Wire {
        let server = Server::shared().await;
        let key = unique_prefix() + "k";
        Wire { proxy: Proxy::start(server), server, key }
    }

    async fn client(&self) -> MultiplexedConnection {
        let client = Client::open(self.proxy.url()).unwrap();
        let config = redis::AsyncConnectionConfig::new().set_response_timeout(Some(ms(500)));
        client.get_multiplexed_async_connection_with_config(&config).await.unwrap()
    }

    async fn stream(&self) -> TcpStream {
        TcpStream::connect(self.proxy.addr()).await.unwrap()
    }

    async fn set(&self, client: &mut MultiplexedConnection, value: &str) -> RedisResult<()> {
        redis::cmd("SET").arg(&self.key).arg(value).query_async(client).await
    }

    /// What really stands in the server.
    async fn value(&self) -> Option<String> {
        self.server.raw().get(&self.key).await
    }

    async fn becomes(&self, value: &str) {
        eventually(secs(20), || async { self.value().await.as_deref() == Some(value) }).await;
    }
}

/// How a connection ends on which nothing was said.
async fn end_of(stream: &mut TcpStream) -> std::io::ErrorKind {
    within(secs(5), stream.read_u8()).await.expect_err("nothing was said").kind()
}

#[track_caller]
fn assert_timed_out(outcome: RedisResult<()>) {
    let error = outcome.expect_err("no reply may arrive");
    assert!(error.is_timeout(), "{error}");
}

#[track_caller]
fn assert_disconnected(outcome: RedisResult<()>) {
    let error = outcome.expect_err("the connection is broken");
    assert!(!error.is_timeout() && error.is_io_error(), "{error}");
}

#[tokio::test]
async fn it_passes_everything_and_counts() {
    let wire = Wire::start().await;
    let mut client = wire.client().await;
    wire.proxy.forget();
    wire.set(&mut client, "1").await.unwrap();
    let mut pipe = redis::pipe();
    for n in 0..50 {
        pipe.cmd("ECHO").arg(n);
    }
    let echoed: Vec<u32> = pipe.query_async(&mut client).await.unwrap();
    assert_eq!(echoed, (0..50).collect::<Vec<_>>());
    assert_eq!((wire.proxy.commands(), wire.proxy.count("echo")), (51, 50));
    assert_eq!(wire.proxy.command_log()[0], "SET");
    assert_eq!((wire.proxy.connections(), wire.proxy.open_connections()), (1, 1));
    drop(client);
    eventually(secs(20), || async { wire.proxy.open_connections() == 0 }).await;
}

#[tokio::test]
async fn delays_count_in_each_direction() {
    let wire = Wire::start().await;
    let mut client = wire.client().await;
    wire.set(&mut client, "0").await.unwrap();
    wire.proxy.delay_replies(ms(300));
    let start = Instant::now();
    wire.set(&mut client, "1").await.unwrap();
    assert!(start.elapsed() >= ms(300), "a late reply: {:?}", start.elapsed());
    wire.proxy.pass();
    wire.proxy.delay_requests(ms(900));
    assert_timed_out(wire.set(&mut client, "2").await);
    assert_eq!(wire.value().await.as_deref(), Some("1"), "not there yet");
    drop(client);
    // The sender is gone, what it sent arrives all the same.
    wire.becomes("2").await;
}

#[tokio::test]
async fn a_dropped_reply_hides_an_executed_command_and_silences_the_connection() {
    let wire = Wire::start().await;
    let (mut client, mut other) = (wire.client().await, wire.client().await);
    wire.proxy.drop_next_reply();
    assert_timed_out(wire.set(&mut client, "1").await);
    assert_eq!(wire.value().await.as_deref(), Some("1"), "executed");
    wire.proxy.pass();
    assert_timed_out(wire.set(&mut client, "2").await);
    assert_eq!(wire.value().await.as_deref(), Some("2"), "later requests arrive, too");
    wire.set(&mut other, "3").await.expect("another connection is not concerned");
}

#[tokio::test]
async fn dropped_requests_never_arrive() {
    let wire = Wire::start().await;
    let mut client = wire.client().await;
    wire.proxy.drop_requests();
    assert_timed_out(wire.set(&mut client, "1").await);
    wire.proxy.pass();
    assert_timed_out(wire.set(&mut client, "2").await);
    assert_eq!(wire.value().await, None);
    wire.set(&mut wire.client().await, "3").await.expect("a new connection works");
}

#[tokio::test]
async fn all_replies_can_be_dropped() {
    let wire = Wire::start().await;
    let (mut one, mut two) = (wire.client().await, wire.client().await);
    wire.proxy.drop_replies();
    let (first, second) = tokio::join!(wire.set(&mut one, "1"), wire.set(&mut two, "1"));
    assert_timed_out(first);
    assert_timed_out(second);
    assert_eq!(wire.value().await.as_deref(), Some("1"));
}

#[tokio::test]
async fn a_black_hole_holds_everything_until_it_heals() {
    let wire = Wire::start().await;
    let mut client = wire.client().await;
    wire.proxy.black_hole();
    assert_timed_out(wire.set(&mut client, "1").await);
    assert_eq!(wire.value().await, None);
    wire.stream().await;
    wire.proxy.pass();
    wire.becomes("1").await;
    wire.set(&mut client, "2").await.expect("the connection lives on, in step");
}

#[tokio::test]
async fn a_cut_black_hole_forgets_what_it_held() {
    let wire = Wire::start().await;
    let mut client = wire.client().await;
    wire.proxy.black_hole();
    assert_timed_out(wire.set(&mut client, "1").await);
    wire.proxy.cut_all();
    eventually(secs(20), || async { wire.proxy.open_connections() == 0 }).await;
    wire.proxy.pass();
    wire.set(&mut wire.client().await, "2").await.unwrap();
    assert_eq!(wire.value().await.as_deref(), Some("2"));
}

#[tokio::test]
async fn cut_is_an_end_of_stream_and_reset_is_a_reset() {
    use std::io::ErrorKind::{ConnectionReset, UnexpectedEof};
    let wire = Wire::start().await;
    let proxy = &wire.proxy;
    let open = |n| eventually(secs(20), move || async move { proxy.open_connections() == n });
    let mut stream = wire.stream().await;
    open(1).await;
    wire.proxy.cut_all();
    assert_eq!(end_of(&mut stream).await, UnexpectedEof);
    open(0).await;
    let mut stream = wire.stream().await;
    open(1).await;
    wire.proxy.reset_all();
    assert_eq!(end_of(&mut stream).await, ConnectionReset);
    wire.proxy.refuse();
    // The reset may come before `connect` has returned.
    let refusal = match TcpStream::connect(wire.proxy.addr()).await {
        Ok(mut stream) => end_of(&mut stream).await,
        Err(error) => error.kind(),
    };
    assert_eq!(refusal, ConnectionReset);
}

#[tokio::test]
async fn a_cut_wakes_a_waiting_client_at_once() {
    let wire = Wire::start().await;
    let mut client = wire.client().await;
    for (then, value) in [(Then::CutReply, "1"), (Then::ResetReply, "2")] {
        let hits = wire.proxy.when(contains("SET"), then);
        assert_disconnected(wire.set(&mut client, value).await);
        assert_eq!(hits.count(), 1);
        assert_eq!(wire.value().await.as_deref(), Some(value), "executed");
        client = wire.client().await;
    }
    wire.proxy.when(contains("SET"), Then::CutRequest);
    assert_disconnected(wire.set(&mut client, "3").await);
    assert_eq!(wire.value().await.as_deref(), Some("2"), "not executed");
}

#[tokio::test]
async fn a_rule_can_lose_a_reply_or_a_request() {
    let wire = Wire::start().await;
    for (then, value, arrives) in [(Then::LoseReply, "1", true), (Then::LoseRequest, "2", false)] {
        let mut client = wire.client().await;
        let hits = wire.proxy.when(contains("SET"), then);
        assert_timed_out(wire.set(&mut client, value).await);
        assert_timed_out(wire.set(&mut client, "later").await);
        assert_eq!(hits.count(), 1);
        let expected = if arrives { "later" } else { "1" };
        assert_eq!(wire.value().await.as_deref(), Some(expected));
        wire.set(&mut wire.client().await, "1").await.expect("a new connection works");
    }
}

#[tokio::test]
async fn split_writes_arrive_whole() {
    let wire = Wire::start().await;
    wire.proxy.split_writes();
    let mut client = wire.client().await;
    let long = "0123456789".repeat(50);
    wire.set(&mut client, &long).await.unwrap();
    assert!(wire.proxy.writes() > long.len(), "{} writes", wire.proxy.writes());
    let back: String = redis::cmd("GET").arg(&wire.key).query_async(&mut client).await.unwrap();
    assert_eq!(back, long);
}

#[tokio::test]
async fn rules_act_on_the_chosen_requests_only() {
    let wire = Wire::start().await;
    let mut client = wire.client().await;
    let nth = wire.proxy.when_nth(3, command(&["set"]), Then::Answer(b"-OOM no\r\n".to_vec()));
    for round in 1..=4 {
        let outcome = wire.set(&mut client, &round.to_string()).await;
        assert_eq!(outcome.is_err(), round == 3, "round {round}: {outcome:?}");
    }
    assert_eq!(nth.count(), 1);
    let other = wire.proxy.when(contains("no such bytes"), Then::LoseReply);
    wire.set(&mut client, "5").await.unwrap();
    assert_eq!(other.count(), 0);
    let late = wire.proxy.when(any(), Then::DelayReply(ms(90)));
    let start = Instant::now();
    wire.set(&mut client, "6").await.unwrap();
    late.fired().await;
    assert!(start.elapsed() >= ms(90));
    wire.proxy.when(any(), Then::DelayRequest(ms(900)));
    assert_timed_out(wire.set(&mut client, "7").await);
    assert_eq!(wire.value().await.as_deref(), Some("6"));
    wire.becomes("7").await;
}

#[tokio::test]
async fn a_rule_can_act_on_the_server_in_the_right_moment() {
    let server = std::sync::Arc::new(Server::start().await);
    let proxy = Proxy::start(&server);
    let client = Client::open(proxy.url()).unwrap();
    let mut client = client.get_multiplexed_async_connection().await.unwrap();
    let frozen = server.clone();
    let hits = proxy.when(contains("SET"), Then::call(move || frozen.freeze()));
    let set = redis::cmd("SET").arg("k").arg("v").query_async::<()>(&mut client).await;
    assert_timed_out(set);
    hits.fired().await;
    server.thaw();
    eventually(secs(20), || async { server.raw().get("k").await }).await;
}

#[tokio::test]
async fn a_dead_server_is_a_broken_connection() {
    let server = Server::start().await;
    let proxy = Proxy::start(&server);
    let client = Client::open(proxy.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    server.kill9();
    assert_disconnected(redis::cmd("PING").query_async(&mut connection).await);
    server.start_again().await;
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    redis::cmd("PING").query_async::<()>(&mut connection).await.unwrap();
}

#[test]
fn frames_end_where_they_end() {
    let frames: [&[u8]; 12] = [
        b"+OK\r\n",
        b"-ERR no\r\n",
        b":-12\r\n",
        b"$-1\r\n",
        b"*-1\r\n",
        b"$3\r\na\r\n\r\n",
        b"*2\r\n$1\r\nx\r\n*1\r\n:1\r\n",
        b"%1\r\n+k\r\n*2\r\n:1\r\n_\r\n",
        b"|1\r\n+ttl\r\n:3\r\n$1\r\nv\r\n",
        b">2\r\n+message\r\n$0\r\n\r\n",
        b"*0\r\n",
        b"PING\r\n",
    ];
    for frame in frames {
        let text = String::from_utf8_lossy(frame);
        assert_eq!(frame_len(frame), Some(frame.len()), "{text:?}");
        assert_eq!(frame_len(&[frame, b"+next\r\n"].concat()), Some(frame.len()), "{text:?}");
        for cut in 0..frame.len() {
            assert_eq!(frame_len(&frame[..cut]), None, "{text:?} cut at {cut}");
        }
    }
    assert_eq!(command_name(b"*2\r\n$4\r\neVal\r\n$1\r\nx\r\n"), "EVAL");
    assert_eq!(command_name(b"ping now\r\n"), "PING");
}
