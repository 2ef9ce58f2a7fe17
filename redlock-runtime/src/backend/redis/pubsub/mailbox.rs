//! The mailbox of a client whose source cannot subscribe: a list from which one connection reads.

use std::time::Duration;

use deadpool_redis::redis;
use deadpool_redis::redis::aio::ConnectionLike;
use deadpool_redis::redis::{Cmd, Pipeline, RedisError, RedisResult, Value};
use tokio::time::timeout;

use super::subscription::{HEARTBEAT, Listener, PubsubStream, SIGN_OF_LIFE, silent};
use crate::backend::redis::connection::is_withheld;
use crate::backend::redis::health::info::{InfoText, field};
use crate::key::MAILBOX;
use crate::owner::random_uuid;

/// The first character of a channel's name that stands for a mailbox. The key of the list follows.
const MARK: char = '@';
/// How long a message is kept if it is not fetched; as long as in `hand_over.lua`.
const LIFE: Duration = Duration::from_secs(60);
/// The most messages that are fetched at once.
const MOST: usize = 64;

/// The channel of a fresh mailbox, below the prefix of the locks, so that a user who may use the
/// locks may use the mailbox. An entry of the queue is split at spaces: a prefix with a space is
/// left out of the name, since no other spelling of it would match the key pattern of such a user.
pub(crate) fn channel(prefix: &str) -> String {
    let prefix = if prefix.contains(char::is_whitespace) { "redlock:" } else { prefix };
    format!("{MARK}{prefix}{MAILBOX}{}", random_uuid().simple())
}

/// The key of the mailbox, if `channel` is one.
pub(crate) fn key_of(channel: &str) -> Option<&str> {
    channel.strip_prefix(MARK)
}

/// Puts a message into a mailbox, as `hand_over.lua` does.
pub(crate) fn put(key: &str, message: &str) -> Pipeline {
    let life = u64::try_from(LIFE.as_millis()).unwrap_or(u64::MAX);
    let mut put = redis::pipe();
    put.cmd("RPUSH").arg(key).arg(message).ignore();
    put.cmd("PEXPIRE").arg(key).arg(life).ignore();
    put
}

/// Passes the messages of the mailbox of `listener` on to it, as they come, over a connection that
/// has no other use. `None`: scripts cannot reach a mailbox on this server, as it is a part of a
/// cluster.
pub(crate) async fn subscribe(
    mut connection: impl ConnectionLike + Send + 'static,
    listener: Listener,
) -> RedisResult<Option<PubsubStream>> {
    if is_in_cluster(&mut connection).await? {
        return Ok(None);
    }
    Ok(Some(Box::pin(empty(connection, listener))))
}

async fn empty(mut connection: impl ConnectionLike + Send, listener: Listener) -> RedisError {
    let key = key_of(&listener.channel).unwrap_or_default().to_owned();
    let mut more = 0;
    loop {
        let fetched =
            match timeout(HEARTBEAT + SIGN_OF_LIFE, fetch(&key, more, &mut connection)).await {
                Ok(Ok(fetched)) => fetched,
                Ok(Err(error)) => return error,
                Err(_) => return silent(),
            };
        more = more_after(more, fetched.len());
        for message in fetched {
            listener.pass_on(message);
        }
    }
}

/// How many messages to fetch besides the first: as many as came the last time, or more if all of
/// them came.
fn more_after(asked: usize, came: usize) -> usize {
    let is_full = came > asked;
    if is_full { (2 * came - 1).min(MOST - 1) } else { came.saturating_sub(1) }
}

/// Waits for the first message, and takes up to `more` after it in the same round trip.
async fn fetch(
    key: &str,
    more: usize,
    connection: &mut (impl ConnectionLike + Send),
) -> RedisResult<Vec<Vec<u8>>> {
    let mut wait = redis::cmd("BLPOP");
    wait.arg(key).arg(HEARTBEAT.as_secs());
    if more == 0 {
        // Not in a pipeline, so that a refusal keeps its code.
        return Ok(messages(vec![wait.query_async(connection).await?]));
    }
    let mut turn = redis::pipe();
    turn.add_command(wait);
    for _ in 0..more {
        let mut take = Cmd::new();
        take.arg("LPOP").arg(key);
        turn.add_command(take);
    }
    Ok(messages(turn.query_async(connection).await?))
}

/// The messages in the answers to BLPOP (the key and the message) and LPOP.
fn messages(answers: Vec<Value>) -> Vec<Vec<u8>> {
    let last = |answer| match answer {
        Value::Array(mut pair) => pair.pop(),
        other => Some(other),
    };
    let messages = answers.into_iter().filter_map(last).filter_map(|answer| match answer {
        Value::BulkString(message) => Some(message),
        _ => None,
    });
    messages.collect()
}

/// If the user may not run INFO, the server is assumed to be a single one.
async fn is_in_cluster(connection: &mut (impl ConnectionLike + Send)) -> RedisResult<bool> {
    let mut ask = redis::cmd("INFO");
    match ask.arg("cluster").query_async::<InfoText>(connection).await {
        Ok(InfoText(info)) => Ok(field(&info, "cluster_enabled") == Some("1")),
        Err(error) if is_withheld(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::{Notify, mpsc};

    use super::super::subscription::News;
    use super::*;
    use crate::backend::redis::connection::{Scripted, bulk};
    use crate::owner;

    const ONE_SERVER: &str = "# Cluster\r\ncluster_enabled:0\r\n";

    fn listener() -> (Listener, mpsc::UnboundedReceiver<News>) {
        let (news, heard) = mpsc::unbounded_channel();
        let channel = format!("{MARK}lock:mailbox:1");
        (Listener { channel, news, doubts: Arc::new(Notify::new()) }, heard)
    }

    fn pair(message: &str) -> String {
        format!("*2\r\n{}\r\n{}", bulk("lock:mailbox:1"), bulk(message))
    }

    #[test]
    fn a_mailbox_lies_below_the_prefix_and_has_no_space_in_its_name() {
        let name = channel("shop:lock:");
        let key = key_of(&name).unwrap();
        assert!(key.starts_with("shop:lock:mailbox:"), "{key}");
        assert_ne!(channel("shop:lock:"), name);
        for prefix in ["my lock:", "a\u{a0}b"] {
            assert!(channel(prefix).starts_with("@redlock:mailbox:"), "{prefix}");
        }
        assert_eq!(key_of("redlock:x"), None);
    }

    /// Its client may be gone for good.
    #[tokio::test]
    async fn a_message_that_nobody_fetches_ends() {
        let mut server = Scripted::new([":1", ":1"]);
        put("k", "a").query_async::<Value>(&mut server).await.unwrap();
        assert_eq!(server.asked(), ["RPUSH k a", "PEXPIRE k 60000"]);
    }

    #[tokio::test]
    async fn messages_are_passed_on_in_their_order_until_the_connection_fails() {
        let (listener, mut heard) = listener();
        // The first fetch is for one message, the next for two; both come, so the next is for four.
        let (info, one, two, three) = (bulk(ONE_SERVER), pair("a"), pair("b"), bulk("c"));
        let (loading, none) = ("-LOADING x", "$-1");
        let answers = [&info[..], &one, &two, &three, loading, none, none, none];
        let server = Scripted::new(answers);
        subscribe(server, listener).await.unwrap().unwrap().await;
        for expected in ["a", "b", "c"] {
            assert_eq!(heard.recv().await, Some(News::Message(expected.into())));
        }
        assert_eq!(heard.recv().await, None);
    }

    #[test]
    fn as_many_are_asked_for_as_came_and_more_if_all_came() {
        assert_eq!(more_after(0, 0), 0, "nothing came");
        assert_eq!(more_after(0, 1), 1);
        assert_eq!(more_after(1, 1), 0);
        assert_eq!(more_after(1, 2), 3);
        assert_eq!(more_after(3, 3), 2);
        assert_eq!(more_after(63, 64), 63, "never more than these");
    }

    /// A child of a process would have its channels otherwise.
    #[test]
    fn channels_are_drawn_from_the_bytes_that_no_other_process_has() {
        random_uuid();
        let subscription = super::super::subscription::channel;
        for draw in [|| channel("lock:"), subscription] {
            let before = owner::drawn();
            assert_ne!(draw(), draw());
            assert_eq!(owner::drawn(), before + 32, "16 bytes each");
        }
    }

    #[tokio::test]
    async fn a_part_of_a_cluster_has_no_mailbox() {
        let server = Scripted::new([&bulk("cluster_enabled:1\r\n")[..]]);
        assert!(subscribe(server, listener().0).await.unwrap().is_none());
        let server = Scripted::new(["-NOPERM info"]);
        assert!(subscribe(server, listener().0).await.unwrap().is_some(), "it may be none");
        let server = Scripted::new(["-LOADING x"]);
        assert!(subscribe(server, listener().0).await.is_err());
    }

    #[tokio::test]
    async fn a_refusal_keeps_its_code() {
        let server = Scripted::new([&bulk(ONE_SERVER)[..], "-NOPERM blpop"]);
        let subscription = subscribe(server, listener().0).await.unwrap().unwrap();
        assert_eq!(subscription.await.code(), Some("NOPERM"));
    }
}
