//! What a worker tells the orchestrator: one event, one line.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

/// Microseconds since 1970. Workers and orchestrator are on one machine, so the times compare.
pub(crate) type Micros = u64;

pub(crate) fn now() -> Micros {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Micros::try_from(elapsed.as_micros()).unwrap_or(Micros::MAX)
}

/// Something that happened in a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    /// Connected, waiting for the start.
    Ready,
    /// A customer got an answer: `seen` is the stock that was read, 0 means sold out.
    Served { task: usize, at: Micros, waited: Micros, held: Micros, fence: u64, seen: i64 },
    /// The act's unlucky holder: it has read `seen` and does not get to its write.
    Incident { task: usize, at: Micros, fence: u64, seen: i64 },
    /// The lease of the unlucky holder was renewed.
    Renewed { at: Micros, count: u32 },
    /// A body was stopped because its lease was over.
    Lost { at: Micros, held: Micros, renewals: u32, reason: String },
    /// A holder whose lease was over wrote what it had read long ago.
    Stale { at: Micros, fence: u64, seen: i64 },
    /// A holder whose lease was over was refused by the database.
    Fenced { at: Micros, fence: u64 },
    /// A customer got an error.
    Failed { at: Micros, text: String },
    /// All customers have been served.
    Done,
    /// The worker is not there any more. Never sent, only observed.
    Gone,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready => f.write_str("ready"),
            Self::Served { task, at, waited, held, fence, seen } => {
                write!(f, "served {task} {at} {waited} {held} {fence} {seen}")
            }
            Self::Incident { task, at, fence, seen } => {
                write!(f, "incident {task} {at} {fence} {seen}")
            }
            Self::Renewed { at, count } => write!(f, "renewed {at} {count}"),
            Self::Lost { at, held, renewals, reason } => {
                write!(f, "lost {at} {held} {renewals} {}", one_line(reason))
            }
            Self::Stale { at, fence, seen } => write!(f, "stale {at} {fence} {seen}"),
            Self::Fenced { at, fence } => write!(f, "fenced {at} {fence}"),
            Self::Failed { at, text } => write!(f, "failed {at} {}", one_line(text)),
            Self::Done => f.write_str("done"),
            Self::Gone => f.write_str("gone"),
        }
    }
}

impl Event {
    /// Reads a line back; `None` for a line that is no event.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
        let mut words = Words(rest);
        let event = match kind {
            "ready" => Self::Ready,
            "served" => Self::Served {
                task: words.number()?,
                at: words.number()?,
                waited: words.number()?,
                held: words.number()?,
                fence: words.number()?,
                seen: words.number()?,
            },
            "incident" => Self::Incident {
                task: words.number()?,
                at: words.number()?,
                fence: words.number()?,
                seen: words.number()?,
            },
            "renewed" => Self::Renewed { at: words.number()?, count: words.number()? },
            "lost" => Self::Lost {
                at: words.number()?,
                held: words.number()?,
                renewals: words.number()?,
                reason: words.rest(),
            },
            "stale" => {
                Self::Stale { at: words.number()?, fence: words.number()?, seen: words.number()? }
            }
            "fenced" => Self::Fenced { at: words.number()?, fence: words.number()? },
            "failed" => Self::Failed { at: words.number()?, text: words.rest() },
            "done" => Self::Done,
            _ => return None,
        };
        words.0.is_empty().then_some(event)
    }
}

struct Words<'a>(&'a str);

impl Words<'_> {
    fn number<T: std::str::FromStr>(&mut self) -> Option<T> {
        let (word, rest) = self.0.split_once(' ').unwrap_or((self.0, ""));
        self.0 = rest;
        word.parse().ok()
    }

    fn rest(&mut self) -> String {
        std::mem::take(&mut self.0).to_owned()
    }
}

fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_survives_the_pipe() {
        let events = [
            Event::Ready,
            Event::Served { task: 3, at: 17, waited: 900, held: 4, fence: 1 << 50, seen: 0 },
            Event::Incident { task: 0, at: 1, fence: 2, seen: 200 },
            Event::Renewed { at: 5, count: 2 },
            Event::Lost { at: 9, held: 8, renewals: 2, reason: "all used up".to_owned() },
            Event::Stale { at: 1, fence: 2, seen: 3 },
            Event::Fenced { at: 1, fence: 2 },
            Event::Failed { at: 1, text: "lock `stock-7` was not free".to_owned() },
            Event::Done,
        ];
        for event in events {
            assert_eq!(Event::parse(&event.to_string()), Some(event));
        }
    }

    #[test]
    fn a_message_of_several_lines_stays_one_event() {
        let event = Event::Failed { at: 1, text: "first\nsecond".to_owned() };
        assert_eq!(event.to_string(), "failed 1 first second");
    }

    #[test]
    fn other_lines_are_no_events() {
        for line in ["", "gone", "served", "served 1 2 3", "fenced 1 2 3", "warning: hello"] {
            assert_eq!(Event::parse(line), None, "{line:?}");
        }
    }
}
