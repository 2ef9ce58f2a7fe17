//! The records of locks, as `docs/protocol.md` describes them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use redlock::__operator::{LockKeys, lock_keys};
use redlock::deadpool_redis::redis::{self, Cmd, Pipeline, Value};
use redlock::{NodeError, NodeErrorKind};

use crate::holder::{Kind, Record};
use crate::node::Node;
use crate::owner_value::{LONGEST, OwnerValue};

/// So many keys are looked at in one step: more would hold the server up.
const STEP: usize = 500;

/// One lock on one server, with all that stands there.
#[derive(Debug, Clone, Default)]
pub(crate) struct Details {
    pub(crate) record: Option<Record>,
    /// `None`: this user may not see it.
    pub(crate) queue: Option<Vec<Waiter>>,
    /// No fencing token of this lock is higher.
    pub(crate) last_fencing_token: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Waiter {
    pub(crate) owner: OwnerValue,
    pub(crate) kind: Kind,
    /// Of how many permits it wants one.
    pub(crate) permits: Option<u32>,
    /// Does it get a signal when it is its turn? Otherwise it asks now and then.
    pub(crate) is_told: bool,
}

/// The locks of a server that are held, as far as its user may see them.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    pub(crate) locks: BTreeMap<String, Record>,
    /// So many keys are left out, which this user may not read. They need not be locks.
    pub(crate) unread: usize,
}

/// The locks on a server that are held and whose name matches a pattern.
pub(crate) async fn list(
    node: &mut Node,
    prefix: &str,
    pattern: &str,
) -> Result<Listing, NodeError> {
    node.check_mode().await?;
    let pattern = format!("{}{pattern}", literal(prefix));
    let mut names = BTreeSet::new();
    let mut cursor = 0_u64;
    loop {
        let mut scan = redis::cmd("SCAN");
        scan.arg(cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(STEP);
        let (next, keys): (u64, Vec<Vec<u8>>) = node.query(&scan).await?;
        for key in keys.into_iter().filter_map(|key| String::from_utf8(key).ok()) {
            let name = key.strip_prefix(prefix).unwrap_or_default();
            if lock_keys(prefix, name).is_ok() {
                names.insert(name.to_owned());
            }
        }
        cursor = next;
        if cursor == 0 {
            break;
        }
    }
    let names: Vec<String> = names.into_iter().collect();
    records(node, prefix, &names).await
}

/// The locks of these names that are held on a server.
pub(crate) async fn records(
    node: &mut Node,
    prefix: &str,
    names: &[String],
) -> Result<Listing, NodeError> {
    let (mut listing, mut refusal) = (Listing::default(), None);
    for names in names.chunks(STEP) {
        if let Some(error) = add_step(node, prefix, names, &mut listing).await? {
            refusal = Some(error);
        }
    }
    // A user who may read some keys only sees the locks of these.
    match refusal {
        Some(error) if listing.locks.is_empty() => Err(error),
        _ => Ok(listing),
    }
}

/// Adds the locks of some names. Returns why a key is left out, if one is.
async fn add_step(
    node: &mut Node,
    prefix: &str,
    names: &[String],
    listing: &mut Listing,
) -> Result<Option<NodeError>, NodeError> {
    let mut pipe = redis::pipe();
    pipe.ignore_errors();
    for name in names {
        let Ok(keys) = lock_keys(prefix, name) else { continue };
        pipe.add_command(value_of(&keys));
        ask_more(&mut pipe, &keys).cmd("LLEN").arg(&keys.queue);
    }
    let replies: Vec<Value> = node.pipeline(&pipe).await?;
    let mut refusal = None;
    for (name, replies) in names.iter().zip(replies.chunks(ASKED + 1)) {
        let [replies @ .., waiting] = replies else { continue };
        let record = match record(node, replies) {
            // Something else has a name below the prefix.
            Err(error) if error.kind() == NodeErrorKind::WrongType => continue,
            Err(error) if error.kind() == NodeErrorKind::NoPermission => {
                refusal = Some(error);
                listing.unread += 1;
                continue;
            }
            record => record?,
        };
        if let Some(mut record) = record {
            record.waiting = if_allowed(node.read(waiting))?;
            listing.locks.insert(name.clone(), record);
        }
    }
    Ok(refusal)
}

/// So many replies make a record.
const ASKED: usize = 3;

/// Asks for what stands in a lock. The reply is empty where the key is gone.
fn value_of(keys: &LockKeys) -> Cmd {
    let mut command = redis::cmd("GETRANGE");
    command.arg(&keys.lock).arg(0).arg(LONGEST - 1);
    command
}

/// Asks for what makes a record, behind the value of the lock. The server may serve others between
/// the commands: of a group, the last one may have gone when its members are looked at. `MULTI`
/// would prevent that, and those who may only look have no right to it.
fn ask_more<'a>(pipe: &'a mut Pipeline, keys: &LockKeys) -> &'a mut Pipeline {
    pipe.cmd("PTTL").arg(&keys.lock);
    pipe.cmd("ZRANGE").arg(&keys.holders).arg(0).arg(-1).arg("WITHSCORES")
}

/// What the server has just said. `None`: the key is gone.
fn record(node: &mut Node, replies: &[Value]) -> Result<Option<Record>, NodeError> {
    let [value, left, members] = replies else { return Ok(None) };
    let value: Option<Vec<u8>> = node.read(value)?;
    let left: i64 = node.read(left)?;
    let Some(value) = value.filter(|_| left != -2) else { return Ok(None) };
    let value = OwnerValue::from(value);
    let left = u64::try_from(left).ok().map(Duration::from_millis);
    let is_shared = Kind::of(value.text()).is_shared();
    let members = if is_shared { node.read(members) } else { Ok(vec![]) };
    let hides_members =
        matches!(&members, Err(error) if error.kind() == NodeErrorKind::NoPermission);
    let members = leases(allowed(members)?, left);
    let answered = Instant::now();
    Ok(Some(Record { value, left, members, hides_members, waiting: None, answered }))
}

/// What is left of the leases of those who share a lock, of which the ends are known, in
/// microseconds. The last one ends with the lock, of which the rest is known: so no clock is asked.
/// Where another program has taken the expiry of the lock away, it is not known what is left.
fn leases(
    members: Vec<(Vec<u8>, f64)>,
    left: Option<Duration>,
) -> BTreeMap<OwnerValue, Option<Duration>> {
    let last = members.iter().map(|(_, end)| *end).fold(0.0, f64::max);
    let lease = |(owner, end): (Vec<u8>, f64)| {
        let before = Duration::try_from_secs_f64((last - end) / 1_000_000.0).ok()?;
        let rest = |left: Duration| left.checked_sub(before).filter(|left| !left.is_zero());
        let left = match left {
            Some(left) => Some(rest(left)?),
            None => None,
        };
        Some((owner.into(), left))
    };
    members.into_iter().filter_map(lease).collect()
}

/// A user without rights on the helper keys of a lock sees the lock all the same.
fn allowed<T: Default>(read: Result<T, NodeError>) -> Result<T, NodeError> {
    if_allowed(read).map(Option::unwrap_or_default)
}

/// The same; `None` where the user has no right to it.
fn if_allowed<T: Default>(read: Result<T, NodeError>) -> Result<Option<T>, NodeError> {
    match read {
        Err(error) if error.kind() == NodeErrorKind::NoPermission => Ok(None),
        Err(error) if error.kind() == NodeErrorKind::WrongType => Ok(Some(T::default())),
        read => read.map(Some),
    }
}

/// What one lock says. A key that is gone and taken again between two replies looks like one with
/// an empty value, and a user may have `+get` alone: then the value is asked for by `GET`.
async fn record_of(node: &mut Node, keys: &LockKeys) -> Result<Option<Record>, NodeError> {
    let mut pipe = redis::pipe();
    ask_more(pipe.ignore_errors().add_command(value_of(keys)), keys);
    let replies = node.pipeline(&pipe).await?;
    match record(node, &replies) {
        Ok(Some(record)) if record.value.bytes().is_empty() => {}
        Err(error) if error.kind() == NodeErrorKind::NoPermission => {}
        record => return record,
    }
    let mut pipe = redis::pipe();
    ask_more(pipe.ignore_errors().cmd("GET").arg(&keys.lock), keys);
    let replies = node.pipeline(&pipe).await?;
    record(node, &replies)
}

/// All about one lock.
pub(crate) async fn details(node: &mut Node, keys: &LockKeys) -> Result<Details, NodeError> {
    node.check_mode().await?;
    // The queue first: whoever is handed the lock meanwhile was seen in it before.
    let entries = node.query(redis::cmd("LRANGE").arg(&keys.queue).arg(0).arg(-1)).await;
    let entries: Option<Vec<Vec<u8>>> = if_allowed(entries)?;
    let of_waiters = |entries: Vec<Vec<u8>>| entries.iter().filter_map(|one| waiter(one)).collect();
    let mut queue: Option<Vec<Waiter>> = entries.map(of_waiters);
    let mut record = record_of(node, keys).await?;
    if let Some(record) = &mut record {
        let is_in =
            |owner: &OwnerValue| record.value == *owner || record.members.contains_key(owner);
        if let Some(queue) = &mut queue {
            queue.retain(|waiter| !is_in(&waiter.owner));
        }
        record.waiting = queue.as_ref().map(Vec::len);
    }
    let mut token_of = async |key: &str| {
        let number = node.query::<Option<Vec<u8>>>(redis::cmd("GET").arg(key)).await;
        allowed(number).map(|number| str::from_utf8(&number?).ok()?.parse().ok())
    };
    let mut last_fencing_token = token_of(&keys.counter).await?;
    if last_fencing_token.is_none() {
        last_fencing_token = token_of(&keys.mark).await?;
    }
    Ok(Details { record, queue, last_fencing_token })
}

/// An entry of a queue: `<expire> <life> <fencing tokens> <channel> <owner>`. A reader has `r` in
/// the place of its fencing tokens, and who wants one of three permits has `p3`.
fn waiter(entry: &[u8]) -> Option<Waiter> {
    let mut words = entry.splitn(5, |byte| *byte == b' ').skip(2);
    let (terms, channel, owner) = (words.next()?, words.next()?, words.next()?);
    let terms = str::from_utf8(terms).ok()?;
    let permits = terms.strip_prefix('p').and_then(|count| count.parse().ok());
    let kind = match terms {
        "r" => Kind::Read,
        _ if permits.is_some() => Kind::Permits,
        _ => Kind::Exclusive,
    };
    Some(Waiter { owner: owner.to_vec().into(), kind, permits, is_told: channel != b"-" })
}

/// A pattern that matches this text only.
fn literal(text: &str) -> String {
    let mut pattern = String::new();
    for c in text.chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '\\') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_a_queue() {
        let told = waiter(b"10000 20000 64 redlock:8f1e web 3:1c2d").unwrap();
        assert_eq!((told.owner.text(), told.is_told), ("web 3:1c2d", true));
        assert_eq!((told.kind, told.permits), (Kind::Exclusive, None));
        assert!(!waiter(b"10000 20000 64 - a").unwrap().is_told);
        assert_eq!(waiter(b"0 0 r redlock:8f1e a").unwrap().kind, Kind::Read);
        let permit = waiter(b"10000 20000 p3 redlock:8f1e a").unwrap();
        assert_eq!((permit.kind, permit.permits), (Kind::Permits, Some(3)));
        assert_eq!(waiter(b"10000 20000"), None);
    }

    #[test]
    fn leases_end_as_far_before_the_last_one_as_the_record_says() {
        let member = |owner: &str, end| (owner.as_bytes().to_vec(), end);
        let ends = vec![member("a", 7_000_000.0), member("b", 9_500_000.0), member("c", 1.0)];
        let left = leases(ends.clone(), Some(Duration::from_secs(4)));
        let expected = [("a", 1_500), ("b", 4_000)];
        let expected = expected.map(|(owner, ms)| (owner.into(), Some(Duration::from_millis(ms))));
        assert_eq!(left, BTreeMap::from(expected), "that of c is over");
        let expected = ["a", "b", "c"].map(|owner| (owner.into(), None));
        assert_eq!(leases(ends, None), BTreeMap::from(expected), "the lock has no expiry");
    }

    #[test]
    fn a_prefix_is_no_pattern() {
        assert_eq!(literal("a*[b]?\\"), "a\\*\\[b\\]\\?\\\\");
    }
}
