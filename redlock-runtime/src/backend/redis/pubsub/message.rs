//! The messages by which the scripts signal hand-overs and releases to a client.

use std::str;
use std::time::Duration;

#[cfg(test)]
use crate::backend::QueueSignal;
use crate::backend::{Claim, FencingTokens};
use crate::fencing::FencingToken;
use crate::key::LockKey;

/// Begins the message to a waiter that has to look again.
pub(crate) const LOOK: &[u8] = b"look ";
/// Begins the question to a waiter whether it is there.
pub(crate) const PING: &[u8] = b"ping ";
/// Begins the message to those who wait for a release.
const FREE: &[u8] = b"free ";

/// A signal, and the lock that it is about.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Signal<'a> {
    /// `<first> <last> <lease in ms> <lock>`: the owner has the lock.
    HandedOver { lock: SignalledLock<'a>, fencing_tokens: FencingTokens, lease: Duration },
    /// `look <lock>`: the holders of a shared kind end earlier than the waiter was told, or those
    /// ahead of it have left the queue.
    Look(SignalledLock<'a>),
    /// `free <lock>`: the lock was released.
    Free(SignalledLock<'a>),
    /// `ping <lock>`: does the owner still wait?
    Ping(SignalledLock<'a>),
}

impl<'a> Signal<'a> {
    /// `None`: it is none of these.
    pub(super) fn parse(signal: &'a [u8]) -> Option<Self> {
        if let Some(lock) = signal.strip_prefix(LOOK) {
            return SignalledLock::parse(lock).map(Self::Look);
        }
        if let Some(lock) = signal.strip_prefix(FREE) {
            return SignalledLock::parse(lock).map(Self::Free);
        }
        if let Some(lock) = signal.strip_prefix(PING) {
            return SignalledLock::parse(lock).map(Self::Ping);
        }
        Self::parse_hand_over(signal)
    }

    fn parse_hand_over(signal: &'a [u8]) -> Option<Self> {
        let mut words = signal.splitn(4, |byte| *byte == b' ');
        let mut number = || -> Option<u64> { str::from_utf8(words.next()?).ok()?.parse().ok() };
        let (first, last, lease) = (number()?, number()?, number()?);
        let lock = SignalledLock::parse(words.next()?)?;
        let fencing_tokens =
            FencingTokens { first: FencingToken::new(first)?, last: FencingToken::new(last)? };
        Some(Self::HandedOver { lock, fencing_tokens, lease: Duration::from_millis(lease) })
    }
}

/// The lock that a signal is about, and its owner.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SignalledLock<'a> {
    pub(super) owner: &'a str,
    key: &'a [u8],
}

impl<'a> SignalledLock<'a> {
    /// `<length of the owner> <owner><lock key>`
    fn parse(words: &'a [u8]) -> Option<Self> {
        let (owner, key) = split_at_length(words)?;
        Some(Self { owner: str::from_utf8(owner).ok()?, key })
    }

    pub(super) fn is_of(&self, claim: &Claim) -> bool {
        self.owner == claim.owner.as_str() && self.is(&claim.key)
    }

    pub(super) fn is(&self, key: &LockKey) -> bool {
        self.key == key.redis_key().as_bytes()
    }
}

/// The signals of a message: what a script has for several owners of this client is one message,
/// `all ` and each signal after its length: `<length> <signal>`.
pub(super) fn signals(message: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = message.strip_prefix(b"all ");
    let mut only = rest.is_none().then_some(message);
    std::iter::from_fn(move || {
        only.take().or_else(|| {
            let (signal, others) = split_at_length(rest.take()?)?;
            rest = Some(others);
            Some(signal)
        })
    })
}

/// `<length> <first><rest>`
fn split_at_length(words: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = words.iter().position(|byte| *byte == b' ')?;
    let (length, both) = (str::from_utf8(&words[..space]).ok()?, &words[space + 1..]);
    both.split_at_checked(length.parse().ok()?)
}

/// The signals of a message for those who stand in a queue, and their owners; `Some(None)`: it asks
/// whether the owner still waits. `None`: one of them is another signal.
#[cfg(test)]
pub(crate) fn queue_signals(message: &[u8]) -> Option<Vec<(String, Option<QueueSignal>)>> {
    let queued = |signal| match Signal::parse(signal)? {
        Signal::HandedOver { lock, fencing_tokens, lease } => {
            Some((lock, Some(QueueSignal::HandedOver { fencing_tokens, lease })))
        }
        Signal::Look(lock) => Some((lock, Some(QueueSignal::Disturbed))),
        Signal::Ping(lock) => Some((lock, None)),
        Signal::Free(_) => None,
    };
    let owned = |(lock, signal): (SignalledLock<'_>, _)| (lock.owner.to_owned(), signal);
    signals(message).map(|signal| queued(signal).map(owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_message_may_have_several_signals() {
        let parts =
            |message: &'static str| -> Vec<&'static [u8]> { signals(message.as_bytes()).collect() };
        let [one, two] = [&b"41 48 500 1 xy"[..], b"allegro"];
        assert_eq!(parts("41 48 500 1 xy"), [one]);
        assert_eq!(parts("all 14 41 48 500 1 xy7 allegro"), [one, two]);
        assert_eq!(parts("all 0 14 41 48 500 1 xy"), [b"", one]);
        // What cannot be read ends it.
        for odd in [
            "all 14 41 48 500 1 xy8 allegro",
            "all 14 41 48 500 1 xyx",
            "all 14 41 48 500 1 xy-1 x",
        ] {
            assert_eq!(parts(odd), [one], "{odd}");
        }
        assert!(parts("all ").is_empty());
        assert_eq!(parts("all"), [b"all"]);
    }

    #[test]
    fn anything_else_is_not_a_signal() {
        for odd in ["free ", "free x", "free 9 short", "free -1 x"] {
            assert!(Signal::parse(odd.as_bytes()).is_none(), "{odd}");
        }
        for odd in ["", "41 48 500", "41 48 500 9 short", "a 48 500 1 xy", "41 48 500 -1 xy"] {
            assert!(Signal::parse(odd.as_bytes()).is_none(), "{odd}");
        }
        assert!(matches!(Signal::parse(b"free 1 xy"), Some(Signal::Free(_))));
        assert!(Signal::parse(b"41 48 500 1 \xff lock:k").is_none());
    }
}
