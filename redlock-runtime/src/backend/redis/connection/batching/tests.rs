mod silence;
mod wire;

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use deadpool_redis::redis::{Arg, ErrorKind, RedisError, RedisResult};
use tokio::task::JoinHandle;

use self::wire::{Wire, all};
use super::batches::{CROWD, FULL, LARGEST, MANY, SMALL};
use super::*;
use crate::backend::redis::commands::ScriptCall;
use crate::backend::redis::commands::exclusive::{acquire, release};
use crate::backend::redis::connection::value;
use crate::backend::{Claim, Release};
use crate::key::LockKey;
use crate::kind::Kind;
use crate::owner::Owner;

/// A connection with so many commands on their way that others form batches.
struct Crowd {
    wire: Wire,
    connection: Batching<Wire>,
    _others: Vec<Batching<Wire>>,
}

type Call = JoinHandle<RedisResult<Value>>;

/// Polls a call once, which gives its command to the connection. Nothing else runs meanwhile.
async fn begin(call: &mut Pin<Box<impl Future>>) {
    assert!(poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx).is_pending())).await);
}

/// A call that is not polled yet.
fn acquiring(
    crowd: &Crowd,
    name: &str,
) -> Pin<Box<impl Future<Output = RedisResult<Value>> + use<>>> {
    Box::pin(send(crowd.connection.clone(), acquire::call(&claim(name))))
}

/// Sends a call as a route does: in a batch if it may join one.
async fn send(mut connection: Batching<Wire>, call: ScriptCall) -> RedisResult<Value> {
    if let Some(joined) = call.part().and_then(|part| connection.join(|| part.clone()))
        && let PartAnswer::Replied { reply, .. } = joined.await
    {
        return reply;
    }
    call.invocation().run(&mut connection).await
}

impl Crowd {
    fn new() -> Self {
        let wire = Wire::default();
        let connection = Batching::new(wire.clone(), MetServer::unknown()).with_batches();
        let others = vec![connection.clone(); CROWD];
        Self { wire, connection, _others: others }
    }

    fn send(&self, call: ScriptCall) -> Call {
        tokio::spawn(send(self.connection.clone(), call))
    }

    fn acquire(&self, name: &str) -> Call {
        self.send(acquire::call(&claim(name)))
    }

    fn release(&self, name: &str) -> Call {
        self.send(release::call(Release::of(&claim(name)), true))
    }

    /// Waits until nothing can happen any more.
    async fn settle(&self) {
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }
}

fn claim(name: &str) -> Claim {
    let key = LockKey::new("lock:", name).unwrap();
    Claim {
        key,
        owner: Owner::of_nobody("t"),
        expire: Duration::from_secs(9),
        kind: Kind::Exclusive,
    }
}

#[tokio::test]
async fn few_commands_leave_one_by_one() {
    let crowd = Crowd { _others: Vec::new(), ..Crowd::new() };
    let calls = [crowd.acquire("a"), crowd.acquire("b")];
    crowd.settle().await;
    assert_eq!(crowd.wire.count(), calls.len());
}

#[tokio::test]
async fn many_leave_in_one_script_and_each_gets_its_own_answer() {
    let crowd = Crowd::new();
    let (a, b) = (crowd.acquire("a"), crowd.release("b"));
    let (c, d) = (crowd.acquire("c"), crowd.release("d"));
    crowd.settle().await;
    assert_eq!(crowd.wire.count(), 1);
    let sent = crowd.wire.command();
    let mut keys = sent.keys();
    keys.retain(|key| key.starts_with("lock:") && !key.contains('{'));
    assert_eq!(keys, ["lock:b", "lock:d", "lock:a", "lock:c"], "releases first");
    let refused = |holder| format!("*4\r\n:0\r\n:7\r\n+{holder}\r\n+5");
    sent.answer(&all("5 1 1 8 ?", &[&refused("web-3")]));
    let answers = [b.await, d.await, a.await, c.await].map(|answer| answer.unwrap().unwrap());
    let granted = Value::BulkString(b"8 5".to_vec());
    let refused = value(&refused("web-3")).unwrap();
    assert_eq!(answers, [Value::Int(1), Value::Int(1), granted, refused]);
}

#[tokio::test]
async fn what_a_batch_has_left_out_is_sent_by_itself() {
    let crowd = Crowd::new();
    let (a, b) = (crowd.release("a"), crowd.release("b"));
    crowd.settle().await;
    crowd.wire.command().answer(&all(" - 1", &[]));
    assert_eq!(b.await.unwrap().unwrap(), Value::Int(1));
    crowd.settle().await;
    let alone = crowd.wire.command();
    assert_eq!(alone.words[1], release_digest());
    assert_eq!(alone.keys()[0], "lock:a");
    alone.answer(":2");
    assert_eq!(a.await.unwrap().unwrap(), Value::Int(2));
}

/// Nobody awaits its answer: the call has returned.
#[tokio::test]
async fn a_release_that_a_batch_has_left_out_leaves_though_nobody_polls_it() {
    let crowd = Crowd::new();
    let call = release::call(Release::of(&claim("a")), true);
    let mut release = Box::pin(send(crowd.connection.clone(), call));
    begin(&mut release).await;
    crowd.settle().await;
    crowd.wire.command().answer(&all(" -", &[]));
    crowd.settle().await;
    let alone = crowd.wire.command();
    assert_eq!((alone.words[1].as_str(), alone.keys()[0]), (&*release_digest(), "lock:a"));
    alone.answer(":2");
    assert_eq!(release.await.unwrap(), Value::Int(2));
}

#[tokio::test]
async fn a_full_connection_has_room_for_what_may_join_a_batch() {
    let crowd = Crowd::new();
    assert!(crowd.connection.has_room(false));
    let others = vec![crowd.connection.clone(); FULL];
    assert!(!crowd.connection.has_room(false) && crowd.connection.has_room(true));
    let many = vec![crowd.connection.clone(); MANY - FULL];
    assert!(!crowd.connection.has_room(true), "it costs less to await a release than to keep it");
    drop(many);
    assert!(crowd.connection.has_room(true));
    drop(others);
    assert!(crowd.connection.has_room(false));
}

fn release_digest() -> String {
    let call = release::call(Release::of(&claim("x")), true);
    let invocation = call.invocation();
    let words = invocation.by_digest().args_iter().nth(1);
    let Some(Arg::Simple(digest)) = words else { panic!("no digest") };
    String::from_utf8(digest.to_vec()).unwrap()
}

/// A caller that has gone before its command left has sent nothing, and its clean-up would come too
/// early.
#[tokio::test]
async fn a_command_whose_caller_has_gone_does_not_leave() {
    let crowd = Crowd::new();
    let mut first = acquiring(&crowd, "gone");
    begin(&mut first).await;
    let (b, c) = (crowd.acquire("b"), crowd.acquire("c"));
    drop(first);
    crowd.settle().await;
    let sent = crowd.wire.command();
    assert!(!sent.keys().contains(&"lock:gone"), "{:?}", sent.words);
    sent.answer(&all("5 1 2", &[]));
    assert_eq!(b.await.unwrap().unwrap(), Value::Int(1));
    assert_eq!(c.await.unwrap().unwrap(), Value::BulkString(b"2 5".to_vec()));
}

#[tokio::test]
async fn a_caller_that_goes_after_its_command_has_left_takes_nothing_along() {
    let crowd = Crowd::new();
    let (a, b) = (crowd.acquire("a"), crowd.acquire("b"));
    crowd.settle().await;
    a.abort();
    crowd.settle().await;
    crowd.wire.command().answer(&all("5 1 2", &[]));
    assert_eq!(b.await.unwrap().unwrap(), Value::BulkString(b"2 5".to_vec()));
}

/// The clean-up of an acquire, for example, must not overtake it.
#[tokio::test]
async fn what_leaves_by_itself_comes_behind_the_batch() {
    let crowd = Crowd::new();
    let mut calls = [acquiring(&crowd, "a"), acquiring(&crowd, "b")];
    for call in &mut calls {
        begin(call).await;
    }
    assert_eq!(crowd.wire.count(), 0, "the batch has not left");
    let alone = release::call(Release::leaving(&claim("c")), true);
    let mut alone = Box::pin(send(crowd.connection.clone(), alone));
    begin(&mut alone).await;
    assert_eq!(crowd.wire.command().keys().iter().filter(|key| **key == "lock:a").count(), 1);
    assert_eq!(crowd.wire.command().keys()[0], "lock:c");
}

#[tokio::test]
async fn a_user_who_may_not_send_the_script_sends_one_by_one() {
    let crowd = Crowd::new();
    let (a, b) = (crowd.acquire("a"), crowd.acquire("b"));
    crowd.settle().await;
    crowd.wire.command().answer("-NOPERM no permission");
    crowd.settle().await;
    for name in ["lock:a", "lock:b"] {
        let alone = crowd.wire.command();
        assert_eq!(alone.keys()[0], name);
        alone.answer(":5");
    }
    for call in [a, b] {
        assert_eq!(call.await.unwrap().unwrap(), Value::Int(5));
    }
    // Nor do others try for a while.
    let _calls = [crowd.acquire("c"), crowd.acquire("d")];
    crowd.settle().await;
    assert_eq!(crowd.wire.count(), 2);
}

/// The script does not come behind with their commands: one of the callers may have gone, and its
/// clean-up would be too early.
#[tokio::test]
async fn a_server_that_does_not_know_the_script_is_told_it_without_commands() {
    let crowd = Crowd::new();
    let (a, b) = (crowd.acquire("a"), crowd.acquire("b"));
    crowd.settle().await;
    b.abort();
    crowd.wire.command().answer("-NOSCRIPT No matching script");
    crowd.settle().await;
    let sent = [crowd.wire.command(), crowd.wire.command()];
    let words = sent.each_ref().map(|sent| sent.words[0].as_str());
    assert!(["EVAL", "EVALSHA"].iter().all(|word| words.contains(word)), "{words:?}");
    for sent in sent {
        let is_introduction = sent.words[0] == "EVAL";
        let key = (!is_introduction).then_some("lock:a");
        assert_eq!(sent.keys().first().copied(), key);
        sent.answer(if is_introduction { "*1\r\n$0\r\n" } else { ":5" });
    }
    assert_eq!(a.await.unwrap().unwrap(), Value::Int(5));
    let _calls = [crowd.acquire("c"), crowd.acquire("d")];
    crowd.settle().await;
    assert_eq!(crowd.wire.count(), 1, "it knows the script now");
}

/// What a proxy says proves nothing: the commands are sent again, and each caller is told that an
/// earlier try may have been carried out.
#[tokio::test]
async fn a_batch_that_a_proxy_fails_may_have_been_carried_out() {
    for (said, may_have_run) in [("-upstream failure", true), ("-OOM command not allowed", false)] {
        let crowd = Crowd::new();
        let join = |call: ScriptCall| {
            let connection = crowd.connection.clone();
            tokio::spawn(
                async move { connection.join(|| call.part().unwrap().clone()).unwrap().await },
            )
        };
        let acquired = join(acquire::call(&claim("a")));
        let released = join(release::call(Release::of(&claim("b")), true));
        crowd.settle().await;
        crowd.wire.command().answer(said);
        crowd.settle().await;
        let alone = crowd.wire.command();
        assert_eq!(alone.keys()[0], "lock:b", "the release leaves at once");
        alone.answer(":1");
        let PartAnswer::Alone { was_cut } = acquired.await.unwrap() else { panic!("{said}") };
        assert_eq!(was_cut, may_have_run, "{said}");
        let PartAnswer::Replied { was_cut, .. } = released.await.unwrap() else { panic!("{said}") };
        assert_eq!(was_cut, may_have_run, "{said}");
        // The next commands are sent one by one.
        let next = release::call(Release::of(&claim("c")), true);
        assert_eq!(
            crowd.connection.join(|| next.part().unwrap().clone()).is_none(),
            may_have_run,
            "{said}"
        );
    }
}

/// What the script did is unknown to every caller.
#[tokio::test]
async fn a_broken_connection_is_told_to_all() {
    for is_dropped in [false, true] {
        let crowd = Crowd::new();
        let calls = [crowd.acquire("a"), crowd.release("b")];
        crowd.settle().await;
        let sent = crowd.wire.command();
        if is_dropped {
            drop(sent);
        } else {
            let _ = sent.reply.send(Err(RedisError::from((ErrorKind::Io, "it broke"))));
        }
        crowd.settle().await;
        assert_eq!(crowd.wire.count(), 0, "nothing is sent twice");
        for call in calls {
            let error = call.await.unwrap().unwrap_err();
            assert!(error.is_io_error(), "{error:?}");
        }
    }
}

#[tokio::test]
async fn an_answer_of_another_form_is_nobodys() {
    let few = [all("5 1", &[]), all("5 1 ?", &[]), all("5 1 ", &[])];
    let many = [all("5 1 8 8", &[]), all("5 1 8", &[":0"]), ":1".to_owned()];
    for odd in few.iter().chain(&many) {
        let crowd = Crowd::new();
        let calls = [crowd.acquire("a"), crowd.release("b")];
        crowd.settle().await;
        crowd.wire.command().answer(odd);
        for call in calls {
            let answer = call.await.unwrap().unwrap();
            assert!(release::decode(&answer).is_none() && acquire::decode(&answer).is_none());
        }
    }
}

/// An eighth of what is on its way, and not more than the server carries out in 200 us.
#[tokio::test]
async fn a_batch_leaves_at_once_when_it_is_full() {
    for (on_their_way, full) in [(CROWD, SMALL), (150, 21), (1_000, LARGEST)] {
        let crowd = Crowd { _others: Vec::new(), ..Crowd::new() };
        // Each command on its way has a clone, and a place.
        let _others = vec![crowd.connection.clone(); 2 * on_their_way];
        let mut calls: Vec<_> = (0..=full).map(|k| acquiring(&crowd, &k.to_string())).collect();
        for call in &mut calls[..full] {
            assert_eq!(crowd.wire.count(), 0);
            begin(call).await;
        }
        assert_eq!(crowd.wire.command().keys().len() / 3, full);
        begin(&mut calls[full]).await;
        assert_eq!(crowd.wire.count(), 0);
        crowd.settle().await;
        assert_eq!(crowd.wire.command().keys().len(), 3, "others have their turn first");
    }
}

#[tokio::test]
async fn a_departure_is_told_once_the_command_is_on_the_connection() {
    let crowd = Crowd::new();
    let mut call = acquiring(&crowd, "a");
    begin(&mut call).await;
    assert_eq!(crowd.wire.count(), 0);
    crowd.connection.batches().unwrap().next_departure().await.unwrap();
    assert_eq!(crowd.wire.count(), 1);
    // Nothing is on its way: it is told all the same.
    crowd.connection.batches().unwrap().next_departure().await.unwrap();
}

/// A task of a runtime that ends is dropped: what has not left is sent by itself.
#[test]
fn the_end_of_a_runtime_leaves_nobody_waiting() {
    let runtime = || tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (home, elsewhere) = (runtime(), runtime());
    let crowd = home.block_on(async { Crowd::new() });
    let call = elsewhere.spawn(acquiring(&crowd, "a"));
    elsewhere.block_on(crowd.settle());
    assert_eq!(crowd.wire.count(), 0, "its home has not run");
    drop(home);
    elsewhere.block_on(crowd.settle());
    crowd.wire.command().answer(":1");
    assert_eq!(elsewhere.block_on(call).unwrap().unwrap(), Value::Int(1));
}
