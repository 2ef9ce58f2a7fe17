//! The records of locks, as `docs/protocol.md` describes them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use redlock::__operator::{LockKeys, lock_keys};
use redlock::NodeError;
use redlock::deadpool_redis::redis::{self, Value};

use crate::node::Node;

/// So many keys are looked at in one step: more would hold the server up.
const STEP: usize = 500;
/// The random half of an owner value of redlock.
const RANDOM_LENGTH: usize = 32;

/// A lock that is held, on one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) owner: String,
    /// `None`: without an expiry, which redlock never does.
    pub(crate) left: Option<Duration>,
    /// How many processes wait in the queue of this server.
    pub(crate) waiting: usize,
}

/// One lock on one server, with all that stands there.
#[derive(Debug, Clone, Default)]
pub(crate) struct Details {
    pub(crate) record: Option<Record>,
    pub(crate) queue: Vec<Waiter>,
    /// No fencing token of this lock is higher.
    pub(crate) last_fencing_token: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Waiter {
    pub(crate) owner: String,
    /// Is it told of its turn? Otherwise it asks now and then.
    pub(crate) is_told: bool,
}

/// Who has a lock, by the answers of all servers of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) owner: String,
    pub(crate) left: Option<Duration>,
    /// On how many servers.
    pub(crate) votes: usize,
    /// Of how many.
    pub(crate) of: usize,
    pub(crate) waiting: usize,
}

impl Holder {
    /// Does a majority make it the holder? Otherwise it is on its way, or left over.
    pub(crate) fn is_majority(&self) -> bool {
        self.votes > self.of / 2
    }

    /// The owner that most of `of` servers have.
    pub(crate) fn among<'a>(
        records: impl Iterator<Item = &'a Record> + Clone,
        of: usize,
    ) -> Option<Self> {
        let mut votes: BTreeMap<&str, Vec<Option<Duration>>> = BTreeMap::new();
        for record in records.clone() {
            votes.entry(&record.owner).or_default().push(record.left);
        }
        let (owner, mut left) = votes.into_iter().max_by_key(|(_, left)| left.len())?;
        // A majority must have it until then. No expiry is the longest.
        left.sort_by_key(|left| std::cmp::Reverse(left.unwrap_or(Duration::MAX)));
        let votes = left.len();
        let waiting = records.map(|record| record.waiting).max().unwrap_or(0);
        let left = left[(of / 2).min(votes - 1)];
        Some(Self { owner: owner.to_owned(), left, votes, of, waiting })
    }
}

/// The name of the client that an owner value begins with: that of the process, mostly.
pub(crate) fn client(owner: &str) -> &str {
    let random =
        |end: &str| end.len() == RANDOM_LENGTH && end.bytes().all(|b| b.is_ascii_hexdigit());
    match owner.rsplit_once(':') {
        Some((client, end)) if random(end) => client,
        _ => owner,
    }
}

/// The locks on a server that are held and whose name matches a pattern.
pub(crate) async fn list(
    node: &mut Node,
    prefix: &str,
    pattern: &str,
) -> Result<BTreeMap<String, Record>, NodeError> {
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
    let mut found = BTreeMap::new();
    for names in names.chunks(STEP) {
        found.extend(records(node, prefix, names).await?);
    }
    Ok(found)
}

async fn records(
    node: &mut Node,
    prefix: &str,
    names: &[String],
) -> Result<Vec<(String, Record)>, NodeError> {
    let mut pipe = redis::pipe();
    pipe.ignore_errors();
    for name in names {
        let Ok(keys) = lock_keys(prefix, name) else { continue };
        pipe.cmd("GET").arg(&keys.lock).cmd("PTTL").arg(&keys.lock);
        pipe.cmd("LLEN").arg(&keys.queue);
    }
    let replies: Vec<Value> = node.pipeline(&pipe).await?;
    let mut found = Vec::new();
    for (name, replies) in names.iter().zip(replies.chunks(3)) {
        if let [owner, left, waiting] = replies
            && let Some(record) = record(owner, left, waiting)
        {
            found.push((name.clone(), record));
        }
    }
    Ok(found)
}

/// `None`: the key is gone, or no lock.
fn record(owner: &Value, left: &Value, waiting: &Value) -> Option<Record> {
    let owner: Option<Vec<u8>> = redis::from_redis_value(owner.clone()).ok()?;
    let owner = String::from_utf8_lossy(&owner?).into_owned();
    let left: i64 = redis::from_redis_value(left.clone()).ok()?;
    if left == -2 {
        return None;
    }
    let left = u64::try_from(left).ok().map(Duration::from_millis);
    let waiting = redis::from_redis_value(waiting.clone()).unwrap_or(0);
    Some(Record { owner, left, waiting })
}

/// All about one lock.
pub(crate) async fn details(node: &mut Node, keys: &LockKeys) -> Result<Details, NodeError> {
    let owner: Value = node.query(redis::cmd("GET").arg(&keys.lock)).await?;
    let left: Value = node.query(redis::cmd("PTTL").arg(&keys.lock)).await?;
    // A user without rights on the queue sees the lock all the same.
    let entries = node.query(redis::cmd("LRANGE").arg(&keys.queue).arg(0).arg(-1)).await;
    let entries: Vec<Vec<u8>> = entries.unwrap_or_default();
    let queue: Vec<Waiter> =
        entries.iter().filter_map(|entry| waiter(&String::from_utf8_lossy(entry))).collect();
    let mut record = record(&owner, &left, &Value::Nil);
    if let Some(record) = &mut record {
        record.waiting = queue.len();
    }
    let mut token_of = async |key: &str| {
        let number = node.query::<Option<String>>(redis::cmd("GET").arg(key)).await;
        number.ok().flatten().and_then(|number| number.parse().ok())
    };
    let mut last_fencing_token = token_of(&keys.counter).await;
    if last_fencing_token.is_none() {
        last_fencing_token = token_of(&keys.mark).await;
    }
    Ok(Details { record, queue, last_fencing_token })
}

/// An entry of a queue: `<expire> <life> <fencing tokens> <channel> <owner>`.
fn waiter(entry: &str) -> Option<Waiter> {
    let mut words = entry.splitn(5, ' ').skip(3);
    let (channel, owner) = (words.next()?, words.next()?);
    Some(Waiter { owner: owner.to_owned(), is_told: channel != "-" })
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

    fn held(owner: &str, secs: u64) -> Record {
        Record { owner: owner.to_owned(), left: Some(Duration::from_secs(secs)), waiting: 0 }
    }

    #[test]
    fn the_owner_of_a_majority_is_the_holder() {
        let records = [held("a", 9), held("b", 30), held("a", 7)];
        let holder = Holder::among(records.iter(), 3).unwrap();
        assert_eq!((holder.owner.as_str(), holder.votes), ("a", 2));
        assert_eq!(holder.left, Some(Duration::from_secs(7)), "then the majority is gone");
        assert!(holder.is_majority());
        let records = [held("a", 9), held("a", 7), held("a", 5)];
        let holder = Holder::among(records.iter(), 3).unwrap();
        assert_eq!(holder.left, Some(Duration::from_secs(7)), "two of three are left until then");
        assert!(!Holder::among([held("a", 1)].iter(), 3).unwrap().is_majority());
        assert_eq!(Holder::among([].iter(), 3), None);
    }

    #[test]
    fn the_client_of_an_owner() {
        assert_eq!(client("web-3:0123456789abcdef0123456789abcdef"), "web-3");
        assert_eq!(client("somebody:else"), "somebody:else");
    }

    #[test]
    fn entries_of_a_queue() {
        let told = waiter("10000 20000 64 redlock:8f1e web 3:1c2d").unwrap();
        assert_eq!((told.owner.as_str(), told.is_told), ("web 3:1c2d", true));
        assert!(!waiter("10000 20000 64 - a").unwrap().is_told);
        assert_eq!(waiter("10000 20000"), None);
    }

    #[test]
    fn a_prefix_is_no_pattern() {
        assert_eq!(literal("a*[b]?\\"), "a\\*\\[b\\]\\?\\\\");
    }
}
