//! A failover has taken place while a connection to the old master was made.

use deadpool_redis::redis::{Arg, Cmd, RedisFuture, Value};

use super::*;
use crate::backend::redis::connection::single_commands;

/// When the connection to the old master began.
const BEGUN: Moment = Moment::from_nanos(10);

/// Before it answers to this command, the old master is left.
struct LeftAt<'i> {
    server: Scripted,
    command: &'static [u8],
    identity: &'i ServerIdentity,
}

impl ConnectionLike for LeftAt<'_> {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        if matches!(command.args_iter().next(), Some(Arg::Simple(name)) if name == self.command) {
            self.identity.leave(BEGUN);
        }
        self.server.req_packed_command(command)
    }

    single_commands!();
}

#[tokio::test]
async fn nothing_is_learned_from_a_server_that_was_left_meanwhile() {
    let master = info("a", "h", "00");
    let replica = format!("{master}role:slave\r\n");
    for (command, old) in [("INFO", &master), ("GET", &master), ("INFO", &replica)] {
        let identity = ServerIdentity::new("n".to_owned(), Some("founders".into()));
        let late = identity.state.lock().met(BEGUN);
        let mut new = Scripted::new([&bulk(&info("b", "h", "00")), "$-1"]);
        let met = identity.meet(&mut new, identity.begin()).await.unwrap();
        let known = identity.memory_since();
        let server = Scripted::new([&bulk(old), "$-1"]);
        let mut old = LeftAt { server, command: command.as_bytes(), identity: &identity };
        let told = diagnose("n", &identity.meet(&mut old, late).await.unwrap_err());
        assert_eq!(told.error.kind(), NodeErrorKind::Unreachable, "{}", told.error);
        assert!(!told.is_final && told.error.message().contains("the place of this one"));
        assert!(!met.superseded.is_set(), "{command}: it leads to the new master");
        assert_eq!((identity.run_id().as_deref(), identity.memory_since()), (Some("b"), known));
    }
}
