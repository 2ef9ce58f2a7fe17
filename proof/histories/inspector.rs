//! What the parent sees on the servers themselves: does a process have the key of a lock?

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use fault_kit::ms;
use redlock::deadpool_redis::redis::{self, RedisResult, Value};
use tokio::task::JoinSet;

use crate::arena::Arena;
use crate::plan::Plan;

/// A server that takes longer to answer has not been asked.
const PATIENCE: Duration = ms(100);

#[derive(Debug)]
pub(crate) struct Inspector {
    arena: Arc<Arena>,
    prefix: &'static str,
    /// On so many servers a key has to stand.
    needed: usize,
    /// Servers that may have forgotten, within the promise.
    doubtful: BTreeSet<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    Theirs,
    NotTheirs,
    Unknown,
}

impl Inspector {
    pub(crate) fn new(arena: Arc<Arena>, plan: &Plan, prefix: &'static str) -> Inspector {
        let topology = plan.topology;
        let needed = if topology.is_quorum() { topology.servers() / 2 + 1 } else { 1 };
        Inspector { arena, prefix, needed, doubtful: plan.doubtful() }
    }

    /// `ok`, or what is wrong: too many servers say that this process does not have the lock. A
    /// replica, and a master that is not one any more, say what they know.
    pub(crate) async fn held(&self, process: &str, name: &str) -> String {
        let key = format!("{}{name}", self.prefix);
        let mut answers = JoinSet::new();
        for n in 0..self.arena.count() {
            let (arena, key, owner) = (Arc::clone(&self.arena), key.clone(), format!("{process}:"));
            answers.spawn(async move {
                let raw = arena.server(n).raw();
                let answer = tokio::time::timeout(PATIENCE, raw.try_cmd(&["GET", &key])).await;
                (n, answer.map_or(Seen::Unknown, |answer| seen(answer, &owner)))
            });
        }
        let trusted = |(n, seen): (usize, Seen)| match seen {
            Seen::NotTheirs if self.doubtful.contains(&n) => Seen::Unknown,
            seen => seen,
        };
        let seen: Vec<Seen> = answers.join_all().await.into_iter().map(trusted).collect();
        verdict(&seen, self.needed)
    }
}

fn verdict(seen: &[Seen], needed: usize) -> String {
    let count = |what| seen.iter().filter(|seen| **seen == what).count();
    let (theirs, unknown) = (count(Seen::Theirs), count(Seen::Unknown));
    if theirs + unknown >= needed {
        return "ok".to_owned();
    }
    let others = count(Seen::NotTheirs);
    format!("{theirs} have it, {others} do not, {unknown} may, and {needed} are needed")
}

fn seen(answer: RedisResult<Value>, owner: &str) -> Seen {
    match answer {
        Ok(value) => match redis::from_redis_value::<Option<String>>(value) {
            Ok(Some(value)) if value.starts_with(owner) => Seen::Theirs,
            Ok(_) => Seen::NotTheirs,
            Err(_) => Seen::Unknown,
        },
        // Another master of a cluster has the slot. One that is about to hand it over (`ASK`) knows
        // some of its keys only.
        Err(error) if error.code() == Some("MOVED") => Seen::NotTheirs,
        Err(_) => Seen::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_have_a_key_is_not_blamed() {
        use Seen::{NotTheirs, Theirs, Unknown};
        assert_eq!(verdict(&[Theirs, NotTheirs, NotTheirs], 1), "ok", "of a cluster");
        assert_eq!(verdict(&[Unknown, NotTheirs, NotTheirs], 1), "ok", "it may have it");
        assert_eq!(verdict(&[Theirs, Unknown, NotTheirs], 2), "ok");
        let wrong = "1 have it, 2 do not, 0 may, and 2 are needed";
        assert_eq!(verdict(&[Theirs, NotTheirs, NotTheirs], 2), wrong);
        let wrong = "0 have it, 1 do not, 0 may, and 1 are needed";
        assert_eq!(verdict(&[NotTheirs], 1), wrong);
    }

    #[test]
    fn an_answer_names_the_process_or_not() {
        let text = |text: &str| Ok(Value::SimpleString(text.to_owned()));
        assert_eq!(seen(text("w1.0:5f"), "w1.0:"), Seen::Theirs);
        assert_eq!(seen(text("w1.01:5f"), "w1.0:"), Seen::NotTheirs);
        assert_eq!(seen(Ok(Value::Nil), "w1.0:"), Seen::NotTheirs);
        assert_eq!(seen(Ok(Value::Array(vec![])), "w1.0:"), Seen::Unknown);
    }
}
