//! A server as one of N nodes: since when it remembers, and its list of founders.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout_at;

use super::clock::CLOCK;
use super::commands::{Deadline, Failure, connect, no_reply};
use super::connection::{Source, diagnose};
use super::founders;
use super::node::RedisNode;
use crate::backend::{ClockOffset, Fault, FoundersOffer, MemorySince, QuorumMember, Reply};

impl<S: Source> QuorumMember for RedisNode<S> {
    fn name(&self) -> &str {
        &self.route.core.name
    }

    fn memory_since(&self) -> Option<MemorySince> {
        self.route.core.identity.memory_since()
    }

    /// Without a restart guard, as of the check at startup.
    fn run_id(&self) -> Option<Arc<str>> {
        let guarded = self.memory_since().map(|memory_since| memory_since.run_id);
        guarded.or_else(|| self.route.core.health.run_id())
    }

    fn clock_offset(&self) -> Option<ClockOffset> {
        self.route.core.identity.clock_offset()
    }

    fn founders<'a>(
        &'a self,
        key: &'a str,
        offer: Option<FoundersOffer>,
        within: Duration,
    ) -> Reply<'a, Option<String>> {
        Box::pin(async move {
            let (core, calls, begun) = (&self.route.core, &self.route.calls, CLOCK.now());
            let fault = |failure| Fault::from(core.health.failed(failure, begun));
            let deadline = Deadline::after(within);
            let mut loan = connect(&core.name, calls, &deadline).await.map_err(fault)?;
            let sent = CLOCK.now();
            let asked = founders::call(&mut loan.connection, key, offer.as_ref());
            match timeout_at(deadline.end, asked).await {
                Ok(Ok((founders, micros))) => {
                    loan.heard();
                    core.health.heard();
                    core.heard_time(micros, sent);
                    Ok(founders)
                }
                Ok(Err(error)) => {
                    let why = diagnose(&core.name, &error);
                    if why.broke() {
                        core.health.broke();
                    }
                    if why.discard {
                        calls.discard(&loan);
                    }
                    Err(fault(Failure::new(why.error, false, why.is_final)))
                }
                Err(_) => {
                    calls.gave_no_answer(&loan, sent, key);
                    Err(fault(no_reply(&core.name, "no reply", within, false)))
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use deadpool_redis::redis::aio::ConnectionLike;
    use deadpool_redis::redis::{Cmd, Pipeline, RedisFuture, RedisResult, Value};

    use super::*;
    use crate::backend::redis::NodeOptions;
    use crate::error::NodeErrorKind;

    /// Answers GET and TIME; a connection that is `mute` answers nothing.
    #[derive(Clone)]
    struct Server {
        is_mute: bool,
    }

    impl ConnectionLike for Server {
        fn req_packed_command<'a>(&'a mut self, _: &'a Cmd) -> RedisFuture<'a, Value> {
            Box::pin(std::future::pending())
        }

        fn req_packed_commands<'a>(
            &'a mut self,
            _: &'a Pipeline,
            _: usize,
            _: usize,
        ) -> RedisFuture<'a, Vec<Value>> {
            if self.is_mute {
                return Box::pin(std::future::pending());
            }
            let part = |text: &str| Value::BulkString(text.into());
            let time = Value::Array(vec![part("17"), part("4")]);
            let answers = vec![part("a b"), time];
            Box::pin(async { Ok(answers) })
        }

        fn get_db(&self) -> i64 {
            0
        }
    }

    /// Its first connection falls silent, as behind a router that has lost it.
    #[derive(Default)]
    struct FirstFallsSilent(AtomicU32);

    impl Source for FirstFallsSilent {
        type Connection = Server;

        async fn connect(&self) -> RedisResult<Server> {
            Ok(Server { is_mute: self.0.fetch_add(1, Ordering::Relaxed) == 0 })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_does_not_tell_the_founders_is_given_up() {
        let source = FirstFallsSilent::default();
        let node = RedisNode::new("n".to_owned(), source, NodeOptions::default());
        let within = Duration::from_secs(1);
        let fault = node.founders("f", None, within).await.unwrap_err();
        assert_eq!(fault.nodes[0].kind(), NodeErrorKind::NoReply);
        assert!(node.route.core.health.is_silent(), "operators are told");
        let founders = node.founders("f", None, within).await.unwrap();
        assert_eq!(founders.as_deref(), Some("a b"));
        assert!(!node.route.core.health.is_silent());
    }
}
