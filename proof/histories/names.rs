//! What the locks of a history are called.

/// Five locks, and the prefix of their keys. They are what a careless scheme of helper keys would
/// confuse: with each other, or with the key of a queue, counter, mark, mailbox or roll, or with
/// the holders. What each of them is used for, `LockKind::of_key` says. In a cluster, some have one
/// slot.
const LOCKS: [(&str, [&str; 5]); 8] = [
    ("lock:", ["k-0", "k-1", "k-2", "k-3", "k-4"]),
    ("lock:", ["x", "{lock:x}", "x:holders", "{lock:x}:", "y"]),
    ("", ["x", "{x}", "x:holders", "{x}0", "x0"]),
    ("", ["{x}", "{x}:", "x", "{x}1", "{x}2"]),
    ("lock:", ["{x", "{{x}}", "{{x}", "{{x}1", "{x}"]),
    ("lock:", ["@lock:mailbox:x", "mailbox:x", "<permits>", "{a}1", "{a}2"]),
    ("lock:", ["nodes", "{202615}:mark", "holders", "{202615}0", "mark"]),
    ("p q:", ["склад", "queue", "holders", "{склад}", "{склад}0"]),
];

/// The prefix of the keys, and the names.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Names {
    pub prefix: &'static str,
    pub names: &'static [&'static str],
}

impl Names {
    /// Seeds go through them in turn, and not in step with the topologies.
    pub(crate) fn of(seed: u64, count: usize) -> Names {
        let turn = usize::try_from(seed / 6 + seed).unwrap_or(0) % LOCKS.len();
        let (prefix, names) = &LOCKS[turn];
        Names { prefix, names: &names[..count.min(names.len())] }
    }

    /// The keys of the locks on the servers.
    pub(crate) fn lock_keys(&self) -> Vec<String> {
        self.names.iter().map(|name| format!("{}{name}", self.prefix)).collect()
    }
}

#[cfg(test)]
mod tests {
    use fault_kit::process::block_on;
    use redlock::Redlock;

    use super::*;

    #[test]
    fn all_names_are_names_of_locks() {
        block_on(async {
            for (prefix, names) in LOCKS {
                let redlock = Redlock::builder().memory().prefix(prefix).build().await;
                let guard = redlock.expect("memory").lock_all(names).acquire().await;
                assert_eq!(guard.expect("they are free").keys().len(), names.len());
            }
        });
    }
}
