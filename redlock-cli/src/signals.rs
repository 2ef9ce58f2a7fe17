//! Signals to this process.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind, signal};

/// What would end a program that does not handle it, as a request of a person or a supervisor.
const ENDING: [Signal; 4] = [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM];
/// What is passed on as well.
const OTHERS: [Signal; 5] = [Signal::USR1, Signal::USR2, Signal::WINCH, Signal::TSTP, Signal::CONT];

/// The signals that have arrived and were not asked for yet.
#[derive(Debug)]
pub(crate) struct Signals {
    streams: Vec<(Signal, unix::Signal)>,
}

impl Signals {
    /// Handles signals from here on, except those that this process was started to ignore
    /// (`nohup`): the command ignores them, too.
    pub(crate) fn listen() -> io::Result<Self> {
        let all = unless_ignored(ENDING.into_iter().chain(OTHERS));
        Self::of(all.chain([Signal::CHILD]))
    }

    /// Handles only the signals that would end this process, except ignored ones.
    pub(crate) fn that_end() -> io::Result<Self> {
        Self::of(unless_ignored(ENDING.into_iter()))
    }

    fn of(all: impl Iterator<Item = Signal>) -> io::Result<Self> {
        let stream = |number: Signal| {
            let kind = SignalKind::from_raw(number.as_raw());
            signal(kind).map(|stream| (number, stream))
        };
        Ok(Self { streams: all.map(stream).collect::<io::Result<_>>()? })
    }

    /// The next signal. Cancel safe.
    pub(crate) async fn next(&mut self) -> Signal {
        poll_fn(|cx| {
            for (number, stream) in &mut self.streams {
                if stream.poll_recv(cx).is_ready() {
                    return Poll::Ready(*number);
                }
            }
            Poll::Pending
        })
        .await
    }
}

fn unless_ignored(signals: impl Iterator<Item = Signal>) -> impl Iterator<Item = Signal> {
    let ignored = status_field("SigIgn:").unwrap_or(0);
    signals.filter(move |signal| !has(ignored, *signal))
}

fn has(set: u64, signal: Signal) -> bool {
    set >> (signal.as_raw() - 1) & 1 == 1
}

/// Does a signal that this process does not handle have its effect, as far as is known?
pub(crate) fn is_heeded(signal: Signal) -> bool {
    let [ignored, blocked] = ["SigIgn:", "SigBlk:"].map(status_field);
    ignored.zip(blocked).is_some_and(|(ignored, blocked)| !has(ignored | blocked, signal))
}

pub(crate) fn is_ending(signal: Signal) -> bool {
    ENDING.contains(&signal)
}

/// The signals that are ignored, or blocked, a bit each. Only Linux reports them.
fn status_field(name: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let field = status.lines().find_map(|line| line.strip_prefix(name))?;
    u64::from_str_radix(field.trim(), 16).ok()
}
