use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use deadpool_redis::redis::aio::ConnectionLike;
use deadpool_redis::redis::{Arg, Cmd, RedisFuture, cmd};
use tokio::time::sleep;

use super::*;
use crate::backend::redis::commands::exclusive::release::SCRIPT;
use crate::backend::redis::connection::{
    IdentifiedSource, Scripted, bulk, single_commands, unidentified, value,
};
use crate::backend::redis::health::ServerIdentity;
use crate::error::{NodeError, NodeErrorKind};
use crate::report::Reports;

/// A server whose place another one takes while it answers to a script.
#[derive(Clone)]
struct Replaced(Arc<ServerIdentity>);

impl Source for Replaced {
    type Connection = Self;

    async fn connect(&self) -> RedisResult<Self> {
        Ok(self.clone())
    }
}

impl ConnectionLike for Replaced {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(async move {
            match command.args_iter().next() {
                Some(Arg::Simple(b"INFO")) => value(&bulk("run_id:a")),
                Some(Arg::Simple(b"GET")) => Ok(Value::Nil),
                _ => {
                    let mut other = Scripted::new([&bulk("run_id:b"), "$-1"]);
                    self.0.meet(&mut other, self.0.begin()).await.map(|_| Value::Okay)
                }
            }
        })
    }

    single_commands!();
}

/// A cluster. The first connection leads to a server that was removed from it, and lives on.
#[derive(Default)]
struct Shrunk(AtomicU32);

impl Source for Shrunk {
    type Connection = Scripted;

    const LEADS_TO_ONE: bool = false;

    async fn connect(&self) -> RedisResult<Scripted> {
        Ok(match self.0.fetch_add(1, Ordering::Relaxed) {
            0 => Scripted::new(["-CLUSTERDOWN Hash slot not served"; 9]),
            _ => Scripted::new(["+OK"; 9]),
        })
    }

    async fn leads(connection: &mut Scripted, key: Option<&str>) -> bool {
        key.is_none() || cmd("GET").query_async::<Value>(connection).await.is_ok()
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_of_a_cluster_to_a_server_without_the_others_is_replaced() {
    let health = OutageLog::new("n", "client".into(), Arc::new(Reports::new(CLOCK)), false);
    let connection = SharedConnection::new(unidentified(Shrunk::default()));
    let call = ScriptCall::new(&SCRIPT, &["k"], &["owner"]);
    let send = async || {
        let deadline = Deadline::after(Duration::from_secs(60));
        let decode = |_: &Value| Some(());
        send_script(&health, &connection, &call, &deadline, decode, no_undo).await
    };
    let failure = send().await.err().expect("the server has no slots");
    assert!(!failure.is_unknown && !failure.is_final);
    assert_eq!(failure.error.kind(), NodeErrorKind::Cluster);
    sleep(Duration::from_secs(1)).await;
    assert!(send().await.is_ok());
}

/// A guarded node whose server another one replaces while it answers.
fn to_replaced() -> (OutageLog, SharedConnection<Replaced>) {
    let health = OutageLog::new("n", "client".into(), Arc::new(Reports::new(CLOCK)), true);
    let identity = Arc::new(ServerIdentity::new("n".to_owned(), Some("founders".into())));
    let server = Replaced(Arc::clone(&identity));
    let source = IdentifiedSource::new(server, "n".into(), &identity);
    (health, SharedConnection::new(Arc::new(source)))
}

#[tokio::test]
async fn a_command_for_one_process_is_not_sent_to_another_one() {
    for (only_at, is_sent) in [("a", true), ("a/history", true), ("b", false)] {
        let (health, connection) = to_replaced();
        let silence = NodeError::new("n", NodeErrorKind::NoReply, "no reply");
        health.failed(Failure::unknown(silence), CLOCK.now());
        let call = ScriptCall::new(&SCRIPT, &["k"], &["owner"]);
        let call = ScriptCall { only_at: Some(only_at.into()), ..call };
        let deadline = Deadline::after(Duration::from_secs(60));
        let decode = |_: &Value| Some(());
        let sent = send_script(&health, &connection, &call, &deadline, decode, no_undo).await;
        let failure = sent.err().expect("this server answers to no script");
        let is_refused = failure.error.kind() == NodeErrorKind::Quarantined;
        assert_eq!((failure.is_unknown, is_refused), (is_sent, !is_sent), "{only_at}");
        assert!(health.is_silent(), "{only_at}: it was not asked, or did not answer");
    }
}

#[tokio::test]
async fn the_answer_of_a_server_that_another_one_replaced_meanwhile_does_not_count() {
    let (health, connection) = to_replaced();
    let call = ScriptCall::new(&SCRIPT, &["k"], &["owner"]);
    let deadline = Deadline::after(Duration::from_secs(60));
    let undone = AtomicU32::new(0);
    let undo = |_| _ = undone.fetch_add(1, Ordering::Relaxed);
    let sent = send_script(&health, &connection, &call, &deadline, |_| Some(()), undo).await;
    let failure = sent.err().expect("the answer does not count");
    assert!(failure.is_unknown && !failure.is_final);
    assert_eq!(failure.error.kind(), NodeErrorKind::ReadOnly);
    assert!(!health.is_out(), "another server answers");
    assert_eq!(undone.into_inner(), 1);
    assert!(!connection.is_connected() && !connection.fell_silent());
}
