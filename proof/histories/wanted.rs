//! The keys that one call wants: one, or several together.

use crate::lock_kind::LockKind;
use crate::log::{Event, Log, now};

/// What stands between the name of a call and the number of one of its keys.
const MARK: char = '&';

/// The keys of a call, in the order in which it names them, and the attempt of each in the log.
#[derive(Debug)]
pub(crate) struct Wanted {
    call: String,
    parts: Vec<Part>,
}

#[derive(Debug)]
pub(crate) struct Part {
    pub attempt: String,
    pub key: String,
}

impl Wanted {
    pub(crate) fn new(call: String, keys: impl IntoIterator<Item = String>) -> Wanted {
        let keys: Vec<String> = keys.into_iter().collect();
        let is_alone = keys.len() == 1;
        let attempt =
            |n: usize| if is_alone { call.clone() } else { format!("{call}{MARK}{}", n + 1) };
        let part = |(n, key)| Part { attempt: attempt(n), key };
        let parts = keys.into_iter().enumerate().map(part).collect();
        Wanted { call, parts }
    }

    /// The same call, as one attempt that follows another one.
    pub(crate) fn then(&self) -> Wanted {
        Wanted::new(format!("{}+", self.call), self.keys().map(str::to_owned))
    }

    pub(crate) fn call(&self) -> &str {
        &self.call
    }

    pub(crate) fn parts(&self) -> &[Part] {
        &self.parts
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().map(|part| part.key.as_str())
    }

    /// The only key, or the first one that the call names.
    pub(crate) fn first(&self) -> &str {
        &self.parts[0].key
    }

    /// Does the call want several keys together?
    pub(crate) fn are_several(&self) -> bool {
        self.parts.len() > 1
    }

    /// The call begins.
    pub(crate) fn begin(&self, log: &Log, kind: LockKind, wait_ms: u64, expire_ms: u64) {
        let mut events = vec![(self.call(), Event::Waits { ms: wait_ms })];
        if self.are_several() {
            let keys = self.parts.len();
            events.push((self.call(), Event::Together { keys, expire_ms }));
        }
        let begin = |part: &Part| Event::Begin { key: part.key.clone(), kind };
        events.extend(self.parts.iter().map(|part| (part.attempt.as_str(), begin(part))));
        log.write_all(events, now());
    }

    /// The same event of each of its attempts.
    pub(crate) fn log(&self, log: &Log, at: u64, event: &Event) {
        let attempts = self.parts.iter().map(|part| part.attempt.as_str());
        log.write_all(attempts.map(|attempt| (attempt, event.clone())), at);
    }
}

/// The call that an attempt belongs to.
pub(crate) fn call_of(attempt: &str) -> &str {
    attempt.split_once(MARK).map_or(attempt, |(call, _)| call)
}

/// Is this the only attempt of its call, or the first one?
pub(crate) fn is_first(attempt: &str) -> bool {
    attempt.split_once(MARK).is_none_or(|(_, n)| n == "1")
}
