//! The signals of a cluster that came already: its bus brings some of them more than once.

use crate::backend::redis::pubsub::LastOnes;
use crate::backend::redis::pubsub::message::{LOOK, PING};

/// How many messages are remembered, as each of them comes from every master.
const MOST_HEARD: usize = 512;

/// Messages that came already: no two hand-overs and no two hints are alike.
pub(super) struct Heard(LastOnes<Vec<u8>, ()>);

impl Default for Heard {
    fn default() -> Self {
        Self(LastOnes::new(MOST_HEARD))
    }
}

impl Heard {
    /// Notes a message. `false`: it came already.
    pub(super) fn note(&mut self, message: &[u8]) -> bool {
        // The same owner may be asked more than once, and may answer once too often.
        message.starts_with(LOOK) || message.starts_with(PING) || self.0.add(&message.to_vec(), ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_over_the_bus_again_is_heard_once() {
        let mut heard = Heard::default();
        assert!(heard.note(b"a") && !heard.note(b"a"));
        for n in 0..MOST_HEARD {
            assert!(heard.note(format!("{n}").as_bytes()));
        }
        assert_eq!(heard.0.len(), MOST_HEARD);
        assert!(heard.note(b"a"), "that is long ago");
        for again in [LOOK, PING] {
            assert!(heard.note(again) && heard.note(again));
        }
    }
}
