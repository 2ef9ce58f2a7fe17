//! What is said when other processes have the lock.

use std::time::Duration;

use redlock::__operator::is_group;
use redlock::deadpool_redis::redis;
use redlock::{LockError, Wait};
use tokio::time::sleep;

use crate::args::RunArgs;
use crate::duration::show;
use crate::failure::Failure;
use crate::holder::{Holder, Kind};
use crate::output::{complain_if_read, plain};
use crate::owner_value::{OwnerValue, retained_by};
use crate::servers::Servers;
use crate::survey::{PATIENCE, Survey};

/// The variables in which a command finds the lock that it runs under.
pub(super) const KEY: &str = "REDLOCK_KEY";
pub(super) const OWNER: &str = "REDLOCK_OWNER";

/// A `redlock run` waits for its command, which must not wait for that lock again.
const OUTER: &str = "the `redlock run` that runs this one (REDLOCK_OWNER)";

/// After this time it is asked whether a lock that is waited for without end has one. Most waits
/// are over by then.
const LONG: Duration = Duration::from_secs(5);
/// What `PTTL` says of a key without an expiry.
const NO_EXPIRY: i64 = -1;

/// Why the lock was not taken.
pub(super) async fn refused(
    args: &RunArgs,
    servers: &Servers,
    key: &str,
    error: LockError,
) -> Failure {
    if !error.is_busy() {
        return error.into();
    }
    let message = match &error {
        _ if args.quiet => String::new(),
        LockError::Timeout { waited, holder, is_endless, .. } => {
            let is_at_once = args.nonblock || args.wait == Wait::Never;
            let waited = show(*waited);
            let message = if let Some(client) = holder.as_deref().and_then(retained_by) {
                retained(key, client, (!is_at_once).then_some(&waited))
            } else {
                let told = match holder.as_deref() {
                    None if args.read || args.permits.is_some() => {
                        "another process, or one that waits comes first".to_owned()
                    }
                    None => "another process".to_owned(),
                    Some("") => "\"\"".to_owned(),
                    Some(holder) => plain(holder),
                };
                let who = whole_holder(args, servers, key, told).await;
                if is_at_once {
                    format!("lock `{key}` is held by {who}")
                } else {
                    format!("lock `{key}` was not free within {waited}: it is held by {who}")
                }
            };
            if *is_endless { format!("{message}; {}", no_end(key)) } else { message }
        }
        other => other.to_string(),
    };
    Failure::new(args.conflict_exit_code, message)
}

/// What is said of a lock whose key has no expiry.
fn no_end(key: &str) -> String {
    format!(
        "its key has no expiry, and does not end by itself; where nobody holds it, `redlock \
         release --force {key}` deletes it"
    )
}

/// A lock that nobody holds, and that is not free. `waited`: for how long, if that was wanted.
fn retained(key: &str, client: &str, waited: Option<&String>) -> String {
    let why = format!("the `min_hold` of {} is not over", plain(client));
    match waited {
        None => format!("nobody holds lock `{key}`: {why}"),
        Some(waited) => {
            format!("lock `{key}` was not free within {waited}: nobody holds it, but {why}")
        }
    }
}

/// Who has the lock. `told`: by the error.
async fn whole_holder(args: &RunArgs, servers: &Servers, key: &str, told: String) -> String {
    let outer = outer_owner(key);
    let is_asked = outer.is_some() || is_group(&told) && !told.contains(' ');
    let seen = if is_asked { seen(servers, key).await } else { None };
    described(told, seen.as_ref(), outer.as_deref(), args.read)
}

/// Warns of a wait without end for the lock that this process itself runs under. That is not an
/// error: the holder does not wait for a process that has left its group.
pub(super) async fn warn_of_deadlock(args: &RunArgs, servers: &Servers, key: &str) {
    let waits_forever = !args.nonblock && args.wait == Wait::Forever;
    let Some(outer) = outer_owner(key).filter(|_| waits_forever && !args.quiet) else { return };
    let Some(holder) = seen(servers, key).await.filter(|seen| has(seen, &outer)) else { return };
    let may_have_both = match holder.kind() {
        Kind::Exclusive => false,
        Kind::Read => args.read,
        Kind::Permits => args.permits.is_some(),
    };
    if !may_have_both {
        let told = plain(holder.sole_owner().unwrap_or(&holder.shown()));
        let who = described(told, Some(&holder), Some(&outer), args.read);
        complain_if_read(&format!(
            "this waits without end for lock `{key}`, which is held by {who}"
        ));
    }
}

/// Warns of a wait without end for a lock that does not end by itself, where that is so after a
/// while. Returns once there is nothing to say any more.
pub(super) async fn warn_of_no_end(args: &RunArgs, servers: &Servers, key: &str) {
    if args.nonblock || args.wait != Wait::Forever || args.quiet {
        return;
    }
    sleep(LONG).await;
    if has_no_end(servers, key).await == Some(true) {
        let no_end = no_end(key);
        complain_if_read(&format!("this waits without end for lock `{key}`: {no_end}"));
    }
}

/// Has the key no expiry, on a majority of the servers? `None`: nobody knows.
async fn has_no_end(servers: &Servers, key: &str) -> Option<bool> {
    let mut survey = Survey::of_keys(servers).ok()?;
    let mut question = redis::cmd("PTTL");
    question.arg(survey.keys(key).ok()?.lock);
    let lefts = survey.ask(PATIENCE, async |node| node.query::<i64>(&question).await).await;
    let endless = lefts.into_iter().flatten().filter(|left| *left == NO_EXPIRY).count();
    Some(endless > survey.masters() / 2)
}

/// The owner of this lock, if this process runs under it.
fn outer_owner(key: &str) -> Option<String> {
    let is_same = std::env::var(KEY).is_ok_and(|outer| outer == key);
    std::env::var(OWNER).ok().filter(|owner| is_same && !owner.is_empty())
}

/// Who has the lock now; `None` also if nobody knows.
async fn seen(servers: &Servers, key: &str) -> Option<Holder> {
    let holder = Survey::of_keys(servers).ok()?.holder(key).await.ok()?.0;
    holder.filter(Holder::is_majority)
}

fn has(holder: &Holder, owner: &str) -> bool {
    let owner = OwnerValue::from(owner);
    holder.owners.iter().any(|one| one.value.hold() == owner.hold())
}

/// Who has the lock. `told`: by the error, which does not say of each group how many they are.
/// `seen`: by a look after that. `outer`: the owner under whose lock this process runs.
fn described(
    told: String,
    seen: Option<&Holder>,
    outer: Option<&str>,
    is_for_reading: bool,
) -> String {
    let is_outer =
        outer.is_some_and(|outer| told == outer || seen.is_some_and(|seen| has(seen, outer)));
    let counted = seen.filter(|seen| seen.kind().group(0) == told).map(Holder::shown);
    let who = counted.unwrap_or(told);
    // What holds a read lock up is a reader only where a writer waits behind it.
    let is_behind_writer = is_for_reading && is_group(&who) && who.contains("reader");
    if is_outer {
        let one_of = if is_group(&who) { "one of them " } else { "" };
        format!("{who}, {one_of}{OUTER}, which may wait for it; take the lock once, further out")
    } else if is_behind_writer {
        format!("{who}, and a writer waits for it")
    } else {
        who
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::holder::Owner;

    fn holder(value: &str, owners: &[&str]) -> Holder {
        let left = Some(Duration::from_secs(9));
        let owner = |value: &&str| Owner {
            value: (*value).into(),
            values: BTreeSet::from([(*value).into()]),
            left,
            votes: 1,
        };
        let owners = owners.iter().map(owner).collect();
        Holder { value: value.into(), owners, left, votes: 1, of: 1, unanswered: 0, waiting: None }
    }

    #[test]
    fn a_group_is_counted() {
        let who = |told: &str, seen: &Holder| described(told.to_owned(), Some(seen), None, false);
        let readers = holder("<readers>", &["a", "b"]);
        assert_eq!(who("readers", &readers), "2 readers");
        assert_eq!(who("permits", &holder("<permits>", &["a"])), "1 permit");
        assert_eq!(who("readers", &holder("<readers>", &[])), "readers", "they may not be seen");
        assert_eq!(who("permits", &readers), "permits", "the lock changed hands");
        assert_eq!(who("web-3:x", &readers), "web-3:x");
        let late = described("2 readers".to_owned(), None, None, true);
        assert_eq!(late, "2 readers, and a writer waits for it");
    }

    #[test]
    fn the_lock_of_its_own_caller_is_recognized() {
        let who = |told: &str, seen: Option<&Holder>, outer| {
            described(told.to_owned(), seen, Some(outer), false)
        };
        assert!(who("a", None, "a").starts_with("a, the `redlock run` that runs this one"));
        assert_eq!(who("a", None, "b"), "a");
        let readers = holder("<readers>", &["a", "b"]);
        let one_of = who("readers", Some(&readers), "b");
        assert!(one_of.starts_with("2 readers, one of them the `redlock run`"), "{one_of}");
        assert_eq!(who("readers", Some(&readers), "c"), "2 readers");
    }
}
