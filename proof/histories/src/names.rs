//! What the locks of a history are called.

/// Two locks, and the prefix of their keys. Each pair is what a careless scheme of helper keys
/// would confuse: with each other, or with the key of a queue, counter, mark, mailbox or roll.
const PAIRS: [(&str, [&str; 2]); 8] = [
    ("lock:", ["k-0", "k-1"]),
    ("lock:", ["x", "{lock:x}"]),
    ("", ["x", "{x}"]),
    ("", ["{x}", "{x}:"]),
    ("lock:", ["{x", "{{x}}"]),
    ("lock:", ["@lock:mailbox:x", "mailbox:x"]),
    ("lock:", ["nodes", "{202615}:mark"]),
    ("p q:", ["склад", "queue"]),
];

/// The prefix of the keys, and the names.
#[derive(Debug, Clone, Copy)]
pub struct Names {
    pub prefix: &'static str,
    pub names: &'static [&'static str],
}

impl Names {
    /// Seeds go through the pairs in turn, and not in step with the topologies.
    pub fn of(seed: u64, count: usize) -> Names {
        let turn = usize::try_from(seed / 6 + seed).unwrap_or(0) % PAIRS.len();
        let (prefix, names) = &PAIRS[turn];
        Names { prefix, names: &names[..count.min(names.len())] }
    }

    /// The keys of the locks on the servers.
    pub fn lock_keys(&self) -> Vec<String> {
        self.names.iter().map(|name| format!("{}{name}", self.prefix)).collect()
    }
}
