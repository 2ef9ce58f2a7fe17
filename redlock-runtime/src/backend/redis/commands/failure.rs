//! A failed call, and what is known about its outcome.

use std::time::Duration;

use deadpool_redis::redis::Value;

use crate::backend::Fault;
use crate::error::{NodeError, NodeErrorKind};
use crate::foreign_text::cut_after;

/// How much of a reply an error shows, in characters.
const SHOWN: usize = 200;

/// A failed call.
pub(crate) struct Failure {
    pub(crate) error: NodeError,
    pub(crate) is_unknown: bool,
    pub(crate) is_final: bool,
}

impl Failure {
    /// The call was not carried out.
    pub(crate) fn not_run(error: NodeError) -> Self {
        Self { error, is_unknown: false, is_final: false }
    }

    /// The call may have been carried out.
    pub(crate) fn unknown(error: NodeError) -> Self {
        Self { is_unknown: true, ..Self::not_run(error) }
    }

    /// Trying again cannot help, if this is so.
    pub(crate) fn final_if(self, is_final: bool) -> Self {
        Self { is_final: self.is_final || is_final, ..self }
    }

    /// The outcome is unknown if another form of the call may have been carried out before.
    pub(crate) fn unknown_if(self, may_have_run: bool) -> Self {
        Self { is_unknown: self.is_unknown || may_have_run, ..self }
    }
}

impl From<Failure> for Fault {
    fn from(failure: Failure) -> Self {
        let Failure { error, is_unknown, is_final } = failure;
        Self { nodes: vec![error], is_unknown, is_final }
    }
}

/// A server without TLS takes the beginning of a handshake for half a command, and waits.
pub(crate) fn no_connection(node: &str, within: Duration) -> Failure {
    let is_secure = node.contains("rediss://");
    let hint = if is_secure { " (does the server speak TLS at this port?)" } else { "" };
    no_reply(node, &format!("no connection{hint}"), within, false)
}

pub(crate) fn no_reply(node: &str, what: &str, within: Duration, is_unknown: bool) -> Failure {
    let message = format!("{what} within {} ms", within.as_millis());
    let error = NodeError::new(node, NodeErrorKind::NoReply, message);
    Failure::not_run(error).unknown_if(is_unknown)
}

/// The reply does not have the form of the script's replies: another program answers there.
pub(crate) fn nonsense(node: &str, value: &Value) -> Failure {
    let message = cut_after(SHOWN, &format!("unexpected reply {value:?}"));
    Failure::unknown(NodeError::new(node, NodeErrorKind::Protocol, message))
}

/// The answer came over a connection whose server no longer has a vote. What the command did there
/// is undone where it could do harm. It is no outage: another server answers.
pub(crate) fn superseded(node: &str) -> Failure {
    let message = "another server answers at this address now, or this one has become a replica: \
                   its answer does not count";
    let error = NodeError::new(node, NodeErrorKind::ReadOnly, message);
    Failure::unknown(error.advising("the next try is sent over a new connection"))
}

/// The command is for the process that answered there before, and was not sent.
pub(crate) fn another_process(node: &str) -> Failure {
    let message = "the server was restarted, or another one has its address: a command for the \
                   process before was not sent";
    Failure::not_run(NodeError::new(node, NodeErrorKind::Quarantined, message)).final_if(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_shows_the_beginning_of_a_reply_only() {
        let said = |length| {
            let reply = Value::SimpleString("\u{e9}".repeat(length));
            nonsense("n", &reply).error.message().to_owned()
        };
        assert!(said(20).ends_with("\u{e9}\")"), "{}", said(20));
        assert_eq!(said(1_000_000).chars().count(), SHOWN + 3);
        assert!(said(1_000_000).ends_with("\u{e9}..."));
    }
}
