//! Whether the user of the URL has the rights that `docs/security.md` names.

use std::borrow::Cow;
use std::time::SystemTime;

use redlock::__operator::{Digests, LockKeys, digests, lock_keys};
use redlock::deadpool_redis::redis::{self, Cmd};
use redlock::{NodeError, NodeErrorKind};

use super::finding::Report;
use crate::node::Node;

/// A channel that nobody else uses.
const CHANNEL: &str = "redlock:doctor";

/// What a missing right costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    /// No lock can be taken.
    Lock,
    /// No lock can be taken as long as the server does not know the scripts.
    Load,
    /// Waiters get no signal when it is their turn, and what shares a lock may fail.
    Queue,
    /// Some calls fail, or ask for each key by itself.
    Calls,
    /// While a slot of the cluster is being moved, its locks are not found.
    Moves,
    /// The server has more to do, and refusals stand in `ACL LOG`.
    Effort,
    /// No read lock and no permit can be taken.
    Kinds,
    /// `redlock ls` and `redlock top` do not work.
    Operator,
    /// `redlock release` does not work.
    Release,
}

/// A word of the ACL, and what it is needed for.
type Word = (Cow<'static, str>, Need);

/// Tries each command on keys of a lock that nobody has. A master of a cluster may have another
/// slot than that of these keys: it looks at the rights first.
pub(super) async fn check(node: &mut Node, prefix: &str, report: &mut Report) {
    let Ok(keys) = lock_keys(prefix, &random_name()) else {
        return report.bad("rights", "the prefix cannot begin the key of a lock");
    };
    let missing = missing(node, &keys).await;
    clean_up(node, &keys).await;
    match missing {
        Ok(missing) => tell(&missing, report),
        Err(silence) => report.bad("rights", format!("not known: {silence}")),
    }
}

/// The words that the user lacks. An error: the server does not answer, and each further command
/// would be waited for as long.
async fn missing(node: &mut Node, keys: &LockKeys) -> Result<Vec<Word>, NodeError> {
    let mut missing = missing_for_scripts(node).await?;
    let of_topology = if node.is_of_cluster() {
        commands_of_cluster()
    } else if node.is_of_sentinels() {
        commands_of_sentinels()
    } else {
        Vec::new()
    };
    // `RPUSH` would begin a list without an expiry, which stays if this process is ended before the
    // next command. It begins none where a text stands, which ends by itself.
    is_refused(node, &command(&["SET", &keys.queue, "redlock doctor", "PX", "10000", "NX"]))
        .await?;
    for (word, need, command) in commands(keys).into_iter().chain(of_topology) {
        if is_refused(node, &command).await? {
            missing.push((word.into(), need));
        }
    }
    // A connection that listens takes few other commands.
    if node.subscribe(CHANNEL).await.is_err_and(|error| is_denied(&error)) {
        missing.push(("+subscribe and &redlock:*".into(), Need::Queue));
    }
    Ok(missing)
}

/// A script may be run by its text, by its digest, or by this digest alone, once it is loaded.
async fn missing_for_scripts(node: &mut Node) -> Result<Vec<Word>, NodeError> {
    let Digests { lock, queue, others, kinds } = digests();
    let has_eval = !is_refused(node, &command(&["EVAL", "return 1", "0"])).await?;
    let (mut missing, mut unknown, mut count) = (Vec::new(), Vec::new(), 0);
    for (digests, need) in [
        (&lock[..], Need::Lock),
        (&queue, Need::Queue),
        (&others, Need::Calls),
        (&kinds, Need::Kinds),
    ] {
        count += digests.len();
        for digest in digests {
            // There are fewer keys than it says: the server looks at the rights, and runs nothing.
            if is_refused(node, &command(&["EVALSHA", digest, "1"])).await? {
                missing.push((format!("+evalsha|{digest}").into(), need));
            } else if !has_eval && is_unknown(node, digest).await? {
                unknown.push(need);
            }
        }
    }
    if missing.len() == count {
        let words = if has_eval { "+evalsha" } else { "+evalsha +eval" };
        missing = vec![(words.into(), Need::Lock)];
    }
    if !has_eval {
        let of_exclusive = unknown.iter().any(|need| *need != Need::Kinds);
        missing.extend(of_exclusive.then_some(("+eval".into(), Need::Load)));
        missing.extend(unknown.contains(&Need::Kinds).then_some(("+eval".into(), Need::Kinds)));
        missing.push(("+eval".into(), Need::Release));
    }
    Ok(missing)
}

/// Has the server not loaded a script? Each of them fails without keys, or does nothing.
async fn is_unknown(node: &mut Node, digest: &str) -> Result<bool, NodeError> {
    match node.takes(&command(&["EVALSHA", digest, "0"])).await {
        Err(error) if is_unanswered(&error) => Err(error),
        outcome => Ok(outcome.is_err_and(|error| error.message().starts_with("NOSCRIPT"))),
    }
}

/// Does the user lack a right for a command? An error: the server has not looked at it.
async fn is_refused(node: &mut Node, command: &Cmd) -> Result<bool, NodeError> {
    match node.takes(command).await {
        Err(error) if is_unanswered(&error) => Err(error),
        outcome => Ok(outcome.is_err_and(|error| is_denied(&error))),
    }
}

fn command(words: &[&str]) -> Cmd {
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]);
    command
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

fn tell(missing: &[Word], report: &mut Report) {
    let words = |need: Need| {
        let of = missing.iter().filter(|(_, of)| *of == need);
        of.map(|(word, _)| &**word).collect::<Vec<_>>().join(" ")
    };
    let [lock, load] = [Need::Lock, Need::Load].map(words);
    let [queue, calls, moves] = [Need::Queue, Need::Calls, Need::Moves].map(words);
    if !lock.is_empty() {
        report.bad("rights", format!("the user may not lock; grant {lock} (docs/security.md)"));
    }
    if !load.is_empty() {
        report.bad(
            "rights",
            format!(
                "the server does not know all scripts of the library, and the user may not send \
                 them: load the scripts, or grant {load} (docs/security.md)"
            ),
        );
    }
    if !queue.is_empty() {
        report.doubtful(
            "rights",
            format!(
                "waiters have no order and are not told of a release, and read locks, permits and \
                 `downgrade` may fail; grant {queue}"
            ),
        );
    }
    if !calls.is_empty() {
        report.doubtful(
            "rights",
            format!("some calls fail, or ask for each of several keys by itself; grant {calls}"),
        );
    }
    if !moves.is_empty() {
        report.doubtful(
            "rights",
            format!("a lock whose slot is being moved is not found; grant {moves}"),
        );
    }
    if [lock, load, queue, calls, moves].iter().all(String::is_empty) {
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
        for (need, who) in [(Need::Operator, "`ls` and `top`"), (Need::Release, "`release`")] {
            let words = words(need);
            if !words.is_empty() {
                text = format!("{text}; {who} would need {words}");
            }
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
    let LockKeys { lock, mark, counter, queue, holders } = keys;
    let mut all = Vec::new();
    let mut add = |word, need, words: &[&str]| all.push((word, need, command(words)));
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
    // `XX`: it adds nothing.
    let zadd = ["ZADD", holders, "XX", "1", "redlock doctor"];
    add("+zadd and ~{<prefix>*}:holders", Need::Kinds, &zadd);
    add("+zscore", Need::Kinds, &["ZSCORE", holders, "redlock doctor"]);
    add("+zcount", Need::Kinds, &["ZCOUNT", holders, "-inf", "+inf"]);
    add("+zrange", Need::Kinds, &["ZRANGE", holders, "0", "-1"]);
    add("+zrem", Need::Kinds, &["ZREM", holders, "redlock doctor"]);
    add("+zremrangebyscore", Need::Kinds, &["ZREMRANGEBYSCORE", holders, "-inf", "+inf"]);
    add("+scan", Need::Operator, &["SCAN", "0", "COUNT", "1"]);
    add("+getrange", Need::Operator, &["GETRANGE", lock, "0", "0"]);
    all
}

/// The same for what a client of a cluster sends by itself. `ASKING` is for the next command only.
fn commands_of_cluster() -> Vec<(&'static str, Need, Cmd)> {
    vec![
        ("+asking", Need::Moves, command(&["ASKING"])),
        ("+ping", Need::Effort, command(&["PING"])),
        ("+cluster|nodes", Need::Operator, command(&["CLUSTER", "NODES"])),
    ]
}

/// The same for a master that sentinels watch: it is asked whether it is one. Where it may not say
/// so, `INFO` does.
fn commands_of_sentinels() -> Vec<(&'static str, Need, Cmd)> {
    vec![("+role", Need::Effort, command(&["ROLE"]))]
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
            let missing: Vec<_> =
                missing.iter().map(|(word, need)| ((*word).into(), *need)).collect();
            tell(&missing, &mut report);
            report.findings.iter().map(|finding| finding.grade).max().unwrap()
        };
        assert_eq!(grade(&[]), Grade::Good);
        assert_eq!(grade(&[("+scan", Need::Operator)]), Grade::Good);
        assert_eq!(grade(&[("+zadd", Need::Kinds)]), Grade::Good);
        assert_eq!(grade(&[("+pubsub|numsub", Need::Effort)]), Grade::Good);
        assert_eq!(grade(&[("+eval", Need::Release)]), Grade::Good);
        assert_eq!(grade(&[("+llen", Need::Queue)]), Grade::Doubtful);
        assert_eq!(grade(&[("+evalsha|ab", Need::Calls)]), Grade::Doubtful);
        assert_eq!(grade(&[("+asking", Need::Moves)]), Grade::Doubtful);
        assert_eq!(grade(&[("+eval", Need::Load)]), Grade::Bad);
        assert_eq!(grade(&[("+set", Need::Lock), ("+llen", Need::Queue)]), Grade::Bad);
    }
}
