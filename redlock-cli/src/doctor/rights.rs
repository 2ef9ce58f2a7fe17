//! Whether the user of the URL has the rights that `docs/security.md` names.

use std::time::SystemTime;

use redlock::__operator::{LockKeys, lock_keys};
use redlock::deadpool_redis::redis::{self, Cmd};
use redlock::{NodeError, NodeErrorKind};

use super::finding::Report;
use crate::node::Node;

/// A digest that no script has.
const NO_SCRIPT: &str = "0000000000000000000000000000000000000000";

/// A channel that nobody else uses.
const CHANNEL: &str = "redlock:doctor";

/// What a missing right costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    /// No lock can be taken.
    Lock,
    /// Waiters get no signal when it is their turn.
    Queue,
    /// The server has more to do, and refusals stand in `ACL LOG`.
    Effort,
    /// No read lock and no permit can be taken.
    Kinds,
    /// `redlock ls` and `redlock top` do not work.
    Operator,
}

/// Tries each command on keys of a lock that nobody has.
pub(super) async fn check(node: &mut Node, prefix: &str, report: &mut Report) {
    let Ok(keys) = lock_keys(prefix, &random_name()) else {
        return report.bad("rights", "the prefix cannot begin the key of a lock");
    };
    let (mut missing, mut silence) = (Vec::new(), None);
    for (word, need, command) in commands(&keys) {
        match node.query::<redis::Value>(&command).await {
            Err(error) if is_denied(&error) => missing.push((word, need)),
            // Each of the others would be waited for as long.
            Err(error) if is_unanswered(&error) => {
                silence = Some(error);
                break;
            }
            _ => {}
        }
    }
    // A connection that listens takes few other commands.
    if silence.is_none()
        && let Err(error) = node.subscribe(CHANNEL).await
        && is_denied(&error)
    {
        missing.push(("+subscribe and &redlock:*", Need::Queue));
    }
    clean_up(node, &keys).await;
    match silence {
        Some(error) => report.bad("rights", format!("not known: {error}")),
        None => tell(&missing, report),
    }
}

/// Deletes what the commands have written. It is left over only where the user may not delete, or
/// where the server has stopped answering.
async fn clean_up(node: &mut Node, keys: &LockKeys) {
    for key in [&keys.lock, &keys.queue, &keys.holders] {
        let deleted = node.query::<redis::Value>(redis::cmd("DEL").arg(key)).await;
        if deleted.is_err_and(|error| is_unanswered(&error)) {
            return;
        }
    }
}

fn tell(missing: &[(&'static str, Need)], report: &mut Report) {
    let words = |need: Need| {
        let of = missing.iter().filter(|(_, of)| *of == need);
        of.map(|(word, _)| *word).collect::<Vec<_>>().join(" ")
    };
    let (lock, queue, operator) = (words(Need::Lock), words(Need::Queue), words(Need::Operator));
    if !lock.is_empty() {
        report.bad("rights", format!("the user may not lock; grant {lock} (docs/security.md)"));
    }
    if !queue.is_empty() {
        report.doubtful(
            "rights",
            format!("waiters have no order and are not told of a release; grant {queue}"),
        );
    }
    if lock.is_empty() && queue.is_empty() {
        let kinds = words(Need::Kinds);
        let mut text = "the user may lock and wait in the queue".to_owned();
        if !kinds.is_empty() {
            text += "; read locks and permits would need ";
            text += &kinds;
        }
        let effort = words(Need::Effort);
        if !effort.is_empty() {
            text += "; the server would have less to do with ";
            text += &effort;
        }
        if !operator.is_empty() {
            text += "; `ls` and `top` would need +scan";
        }
        report.good("rights", text);
    }
}

/// Has no server looked at the command?
fn is_unanswered(error: &NodeError) -> bool {
    matches!(
        error.kind(),
        NodeErrorKind::Cluster | NodeErrorKind::Unreachable | NodeErrorKind::NoReply
    )
}

fn is_denied(error: &NodeError) -> bool {
    error.kind() == NodeErrorKind::NoPermission
}

/// The word of the ACL, what it is needed for, and the command.
fn commands(keys: &LockKeys) -> Vec<(&'static str, Need, Cmd)> {
    let command = |words: &[&str]| {
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        command
    };
    let LockKeys { lock, mark, counter, queue, holders } = keys;
    let mut all = Vec::new();
    let mut add = |word, need, words: &[&str]| all.push((word, need, command(words)));
    add("+evalsha", Need::Lock, &["EVALSHA", NO_SCRIPT, "1", lock]);
    add("+eval", Need::Lock, &["EVAL", "return 1", "1", lock]);
    add("+get and ~<prefix>*", Need::Lock, &["GET", lock]);
    add("+mget", Need::Lock, &["MGET", lock, mark]);
    add("+set", Need::Lock, &["SET", lock, "redlock doctor", "PX", "1000", "NX"]);
    add("+pexpire", Need::Lock, &["PEXPIRE", lock, "1000"]);
    add("+pttl", Need::Lock, &["PTTL", lock]);
    add("+del", Need::Lock, &["DEL", lock]);
    add("~{<prefix>*}:fence", Need::Lock, &["GET", counter]);
    add("+rpush and ~{<prefix>*}:queue", Need::Queue, &["RPUSH", queue, "redlock doctor"]);
    add("+pexpire", Need::Queue, &["PEXPIRE", queue, "1000"]);
    add("+setrange", Need::Effort, &["SETRANGE", lock, "0", ""]);
    add("+exists", Need::Effort, &["EXISTS", queue]);
    add("+llen", Need::Queue, &["LLEN", queue]);
    add("+lindex", Need::Queue, &["LINDEX", queue, "0"]);
    add("+lrange", Need::Queue, &["LRANGE", queue, "0", "-1"]);
    add("+lrem", Need::Queue, &["LREM", queue, "1", "nobody"]);
    add("+lpop", Need::Queue, &["LPOP", queue]);
    add("+publish and &redlock:*", Need::Queue, &["PUBLISH", CHANNEL, "free"]);
    add("+pubsub|numsub", Need::Effort, &["PUBSUB", "NUMSUB", CHANNEL]);
    add("+zadd and ~{<prefix>*}:holders", Need::Kinds, &["ZADD", holders, "1", "redlock doctor"]);
    add("+zscore", Need::Kinds, &["ZSCORE", holders, "redlock doctor"]);
    add("+zcount", Need::Kinds, &["ZCOUNT", holders, "-inf", "+inf"]);
    add("+zrange", Need::Kinds, &["ZRANGE", holders, "0", "-1"]);
    add("+zrem", Need::Kinds, &["ZREM", holders, "redlock doctor"]);
    add("+zremrangebyscore", Need::Kinds, &["ZREMRANGEBYSCORE", holders, "-inf", "+inf"]);
    add("+scan", Need::Operator, &["SCAN", "0", "COUNT", "1"]);
    all
}

/// A lock that nobody else uses.
pub(super) fn random_name() -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("redlock-doctor-{}-{}", std::process::id(), now.as_nanos())
}

#[cfg(test)]
mod tests {
    use super::super::finding::Grade;
    use super::*;

    #[test]
    fn a_missing_right_is_as_bad_as_what_it_costs() {
        let grade = |missing: &[(&'static str, Need)]| {
            let mut report = Report::of("a");
            tell(missing, &mut report);
            report.findings.iter().map(|finding| finding.grade).max().unwrap()
        };
        assert_eq!(grade(&[]), Grade::Good);
        assert_eq!(grade(&[("+scan", Need::Operator)]), Grade::Good);
        assert_eq!(grade(&[("+zadd", Need::Kinds)]), Grade::Good);
        assert_eq!(grade(&[("+pubsub|numsub", Need::Effort)]), Grade::Good);
        assert_eq!(grade(&[("+llen", Need::Queue)]), Grade::Doubtful);
        assert_eq!(grade(&[("+set", Need::Lock), ("+llen", Need::Queue)]), Grade::Bad);
    }
}
