//! A server as one of N nodes: since when it remembers, and its list of founders.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout_at;

use super::clock::CLOCK;
use super::commands::{Deadline, Failure, connect, no_reply};
use super::connection::{Source, diagnose};
use super::founders;
use super::node::RedisNode;
use crate::backend::{
    ClockOffset, Fault, FoundersList, FoundersOffer, MemorySince, QuorumMember, Reply, process,
};
use crate::error::{NodeError, NodeErrorKind};

impl<S: Source> QuorumMember for RedisNode<S> {
    fn name(&self) -> &str {
        &self.route.core.name
    }

    fn memory_since(&self) -> Option<MemorySince> {
        self.route.core.identity.memory_since()
    }

    /// Without a restart guard, as the newest connection has said, or the check at startup.
    fn run_id(&self) -> Option<Arc<str>> {
        let (core, guarded) = (&self.route.core, self.memory_since());
        let guarded = guarded.map(|memory_since| memory_since.run_id);
        guarded.or_else(|| core.identity.answering()).or_else(|| core.health.run_id())
    }

    fn clock_offset(&self) -> Option<ClockOffset> {
        self.route.core.identity.clock_offset()
    }

    fn founders<'a>(
        &'a self,
        key: &'a str,
        offer: Option<FoundersOffer>,
        within: Duration,
    ) -> Reply<'a, FoundersList> {
        Box::pin(async move {
            let (core, connection) = (&self.route.core, &self.route.connection);
            let begun = CLOCK.now();
            let fault = |failure| Fault::from(core.health.failed(failure, begun));
            let deadline = Deadline::after(within);
            let mut loan = connect(&core.name, connection, &deadline).await.map_err(fault)?;
            // The offer was made before this connection, which may have met another process.
            if let Some(run_id) = offer.as_ref().and_then(|offer| offer.run_id.as_deref()) {
                let met = loan.connection.met().run_id.as_deref();
                let known = self.memory_since().map(|memory_since| memory_since.run_id);
                if met != Some(process(run_id)) || known.as_deref() != Some(run_id) {
                    return Err(another_process(&core.name));
                }
            }
            let sent = CLOCK.now();
            let asked = founders::call(&mut loan.connection, key, offer.as_ref());
            match timeout_at(deadline.end, asked).await {
                Ok(Ok((list, micros))) => {
                    loan.heard();
                    core.health.heard();
                    core.heard_time(micros, sent);
                    Ok(list)
                }
                Ok(Err(error)) => {
                    let why = diagnose(&core.name, &error);
                    if why.broke() {
                        core.health.broke();
                    }
                    if why.discard {
                        connection.discard(&loan);
                    }
                    Err(fault(Failure::not_run(why.error).final_if(why.is_final)))
                }
                Err(_) => {
                    connection.gave_no_answer(&loan, sent, key);
                    Err(fault(no_reply(&core.name, "no reply", within, false)))
                }
            }
        })
    }
}

/// The list of founders is to be made anew, for the process that answers now.
fn another_process(node: &str) -> Fault {
    let message = "the server was restarted, or another one has its address, while it was to be \
                   told with which servers its group began";
    Fault::known(vec![NodeError::new(node, NodeErrorKind::Quarantined, message)])
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use deadpool_redis::redis::aio::ConnectionLike;
    use deadpool_redis::redis::{Arg, Cmd, Pipeline, RedisFuture, RedisResult, Value};

    use super::*;
    use crate::backend::FormerList;
    use crate::backend::redis::NodeOptions;
    use crate::mutex::Mutex;

    /// Says who it is, knows no list before it is asked for one beside its TIME, and notes what is
    /// written. A connection that is `mute` does not answer the latter.
    #[derive(Debug, Clone)]
    struct Server {
        info: &'static str,
        is_mute: bool,
        written: Arc<Mutex<Vec<String>>>,
    }

    impl ConnectionLike for Server {
        fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
            let answer = match command.args_iter().next() {
                Some(Arg::Simple(b"INFO")) => Value::BulkString(self.info.into()),
                _ => Value::Nil,
            };
            Box::pin(async { Ok(answer) })
        }

        fn req_packed_commands<'a>(
            &'a mut self,
            pipeline: &'a Pipeline,
            _: usize,
            _: usize,
        ) -> RedisFuture<'a, Vec<Value>> {
            if self.is_mute {
                return Box::pin(std::future::pending());
            }
            let part = |text: &str| Value::BulkString(text.into());
            let answer = |command: &Cmd| {
                let mut words = command.args_iter().map(|word| match word {
                    Arg::Simple(word) => String::from_utf8_lossy(word).into_owned(),
                    other => format!("{other:?}"),
                });
                match words.next().as_deref() {
                    Some("PTTL") => Value::Int(2000),
                    Some("TIME") => Value::Array(vec![part("17"), part("4")]),
                    Some("SET") => {
                        self.written.lock().push(words.collect::<Vec<_>>().join(" "));
                        Value::Okay
                    }
                    _ => part("a b"),
                }
            };
            let answers = pipeline.cmd_iter().map(answer).collect();
            Box::pin(async { Ok(answers) })
        }

        fn get_db(&self) -> i64 {
            0
        }
    }

    /// Its first connections fall silent, as behind a router that has lost them. Each leads to the
    /// next server; one that began later leads to the last one.
    struct InTurn {
        servers: Mutex<VecDeque<Server>>,
        written: Arc<Mutex<Vec<String>>>,
    }

    impl InTurn {
        fn new<const N: usize>(infos: [&'static str; N]) -> Self {
            let written = Arc::default();
            let server = |(number, info)| Server {
                info,
                is_mute: number + 1 < N,
                written: Arc::clone(&written),
            };
            let servers = infos.into_iter().enumerate().map(server).collect();
            Self { servers: Mutex::new(servers), written }
        }
    }

    impl Source for InTurn {
        type Connection = Server;

        async fn connect(&self) -> RedisResult<Server> {
            let mut servers = self.servers.lock();
            let last = servers.len() == 1;
            let next = if last { servers.front().cloned() } else { servers.pop_front() };
            Ok(next.expect("there is one server at least"))
        }
    }

    const WITHIN: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_does_not_tell_the_founders_is_given_up() {
        let source = InTurn::new(["", ""]);
        let node = RedisNode::new("n".to_owned(), source, NodeOptions::default());
        let fault = node.founders("f", None, WITHIN).await.unwrap_err();
        assert_eq!(fault.nodes[0].kind(), NodeErrorKind::NoReply);
        assert!(node.route.core.health.is_silent(), "operators are told");
        let list = node.founders("f", None, WITHIN).await.unwrap();
        assert_eq!(list.text.as_deref(), Some("a b"));
        assert!(!node.route.core.health.is_silent());
    }

    /// A list of founders without a witness says of each of them that it was not restarted.
    #[tokio::test(start_paused = true)]
    async fn a_list_for_one_process_is_not_written_on_the_next_one() {
        const PROMOTED: &str = "run_id:a\r\nmaster_replid:h\r\nmaster_replid2:a0";
        for (info, is_same) in [("run_id:a", true), ("run_id:b", false), (PROMOTED, false)] {
            let source = InTurn::new(["run_id:a", info]);
            let written = Arc::clone(&source.written);
            let founders_key = Some("f".into());
            let options = NodeOptions { founders_key, ..NodeOptions::default() };
            let node = RedisNode::new("n".to_owned(), source, options);
            assert!(node.founders("f", None, WITHIN).await.is_err());
            let run_id = node.memory_since().map(|memory_since| memory_since.run_id);
            assert_eq!(run_id.as_deref(), Some("a"));
            let (founders, life, former) = ("a c".to_owned(), WITHIN, FormerList::Stays);
            let offer = FoundersOffer { run_id, founders, life, former };
            let answer = node.founders("f", Some(offer.clone()), WITHIN).await;
            assert_eq!(answer.is_ok(), is_same, "{info}: {answer:?}");
            assert_eq!(written.lock().len(), usize::from(is_same), "{info}");
            if let Err(fault) = answer {
                assert_eq!(fault.nodes[0].kind(), NodeErrorKind::Quarantined);
                assert!(!fault.is_unknown && !fault.is_final, "{fault:?}");
            }
            // What proves nothing is for any process.
            let offer = FoundersOffer { run_id: None, ..offer };
            assert!(node.founders("f", Some(offer), WITHIN).await.is_ok());
        }
    }
}
