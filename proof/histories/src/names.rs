//! What the locks of a history are called.

/// Three locks, and the prefix of their keys. They are what a careless scheme of helper keys would
/// confuse: with each other, or with the key of a queue, counter, mark, mailbox or roll, or with
/// the holders. What each of the three is used for, `LockKind::of_key` says.
const LOCKS: [(&str, [&str; 3]); 8] = [
    ("lock:", ["k-0", "k-1", "k-2"]),
    ("lock:", ["x", "{lock:x}", "x:holders"]),
    ("", ["x", "{x}", "x:holders"]),
    ("", ["{x}", "{x}:", "x"]),
    ("lock:", ["{x", "{{x}}", "{{x}"]),
    ("lock:", ["@lock:mailbox:x", "mailbox:x", "<permits>"]),
    ("lock:", ["nodes", "{202615}:mark", "holders"]),
    ("p q:", ["склад", "queue", "holders"]),
];

/// The prefix of the keys, and the names.
#[derive(Debug, Clone, Copy)]
pub struct Names {
    pub prefix: &'static str,
    pub names: &'static [&'static str],
}

impl Names {
    /// Seeds go through them in turn, and not in step with the topologies.
    pub fn of(seed: u64, count: usize) -> Names {
        let turn = usize::try_from(seed / 6 + seed).unwrap_or(0) % LOCKS.len();
        let (prefix, names) = &LOCKS[turn];
        Names { prefix, names: &names[..count.min(names.len())] }
    }

    /// The keys of the locks on the servers.
    pub fn lock_keys(&self) -> Vec<String> {
        self.names.iter().map(|name| format!("{}{name}", self.prefix)).collect()
    }
}
