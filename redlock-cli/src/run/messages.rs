//! What is said on stderr while the lease is watched.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use crate::output::{complain, is_stderr_ready};

/// Messages that wait until stderr takes them: a reader that stands still must not keep the lease
/// from being watched, nor the command from being ended.
#[derive(Debug, Default)]
pub(super) struct Messages {
    unsaid: VecDeque<String>,
    /// What is tried again and again, and fails each time, is reported once.
    told: BTreeSet<String>,
}

impl Messages {
    /// Says it as soon as that is possible.
    pub(super) fn tell(&mut self, message: String) {
        self.add(message);
        self.say(Duration::ZERO);
    }

    fn add(&mut self, message: String) {
        if self.told.insert(message.clone()) {
            self.unsaid.push_back(message);
        }
    }

    /// Prints the messages that were not printed yet. `patience`: how long stderr may stand still
    /// before each.
    pub(super) fn say(&mut self, patience: Duration) {
        while let Some(message) = self.unsaid.front()
            && is_stderr_ready(patience)
        {
            complain(message);
            self.unsaid.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_again_and_again_is_told_once() {
        let mut messages = Messages::default();
        for message in ["a", "a", "b", "a"] {
            messages.add(message.to_owned());
        }
        assert_eq!(messages.unsaid, ["a", "b"]);
    }
}
