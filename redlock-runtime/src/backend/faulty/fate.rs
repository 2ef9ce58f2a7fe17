//! What happens to one command: carried out or not, answered or not.

use std::time::Duration;

use crate::backend::Fault;
use crate::error::{NodeError, NodeErrorKind};

/// What happens to one command.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fate {
    /// It is carried out at once, and answered after a while.
    Slow(Duration),
    /// It arrives after a while, whether or not its caller still waits.
    #[cfg(test)]
    Late(Duration),
    /// The client library sends it twice without saying so, and the second reply counts.
    #[cfg(test)]
    SentAgain,
    /// It is carried out, but its reply never comes.
    LostReply,
    /// It never arrives, which its caller cannot tell from a lost reply.
    LostRequest,
    /// The node refuses it, or cannot be reached.
    Refused(NodeErrorKind, IsFinal),
    /// The code that carries it out panics.
    #[cfg(test)]
    Panic,
}

pub(crate) type IsFinal = bool;

/// Lets one command meet its fate; `run` carries it out. Ends within `within`, as a command to a
/// server does.
pub(crate) async fn meet<T>(
    name: &str,
    fate: Option<Fate>,
    within: Duration,
    run: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    match fate {
        None => run.await,
        Some(Fate::Slow(delay)) if delay < within => {
            let answer = run.await;
            tokio::time::sleep(delay).await;
            answer
        }
        #[cfg(test)]
        Some(Fate::Late(delay)) => {
            tokio::time::sleep(delay).await;
            run.await
        }
        // The node has carried it out once before.
        #[cfg(test)]
        Some(Fate::SentAgain) => run.await,
        Some(Fate::Slow(_) | Fate::LostReply) => {
            drop(run.await);
            no_reply(name, within).await
        }
        Some(Fate::LostRequest) => no_reply(name, within).await,
        Some(Fate::Refused(kind, is_final)) => {
            let node = NodeError::new(name, kind, message(kind));
            // A reply that makes no sense may follow a command that was carried out, and an error
            // that Redis does not know may be that of a proxy.
            let is_unknown = matches!(kind, NodeErrorKind::Protocol | NodeErrorKind::Refused);
            Err(Fault { nodes: vec![node], is_unknown, is_final })
        }
        #[cfg(test)]
        Some(Fate::Panic) => panic!("on purpose"),
    }
}

/// Nobody knows whether the command was carried out.
async fn no_reply<T>(name: &str, within: Duration) -> Result<T, Fault> {
    tokio::time::sleep(within).await;
    let message = format!("no reply within {} ms", within.as_millis());
    let node = NodeError::new(name, NodeErrorKind::NoReply, message);
    Err(Fault { nodes: vec![node], is_unknown: true, is_final: false })
}

/// What a server says, or the operating system.
fn message(kind: NodeErrorKind) -> &'static str {
    match kind {
        NodeErrorKind::Unreachable => "Connection refused",
        NodeErrorKind::Authentication => "NOAUTH Authentication required.",
        NodeErrorKind::NoPermission => "NOPERM this user has no permissions to run this command",
        NodeErrorKind::Loading => "LOADING Redis is loading the dataset in memory",
        NodeErrorKind::Busy => "BUSY Redis is busy running a script",
        NodeErrorKind::OutOfMemory => "OOM command not allowed when used memory > 'maxmemory'.",
        NodeErrorKind::CannotPersist => "MISCONF Redis cannot persist its data on disk.",
        NodeErrorKind::NoReplicas => "NOREPLICAS Not enough good replicas to write.",
        NodeErrorKind::ReadOnly => "READONLY You can't write against a read only replica.",
        NodeErrorKind::WrongType => "WRONGTYPE the key holds the wrong kind of value",
        NodeErrorKind::Cluster => "CLUSTERDOWN The cluster is down",
        NodeErrorKind::TooManyClients => "ERR max number of clients reached",
        _ => "ERR refused by the script of a test",
    }
}
