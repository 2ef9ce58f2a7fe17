//! The scripts that ship, and how a command names its script.

use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use redis_model::{Script, Server};

use super::line::Entry;
use super::node::Command;
use crate::backend::{CLAIM_WINDOW, Claim, Look, simulated};

/// How a command names its script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    Digest,
    Text,
}

impl Command {
    /// Who lets go of a lock with it.
    pub(super) fn departing(&self) -> Option<&Claim> {
        match self {
            Command::Release(claim)
            | Command::Leave(claim)
            | Command::GiveBack(claim, _)
            | Command::Retain(claim, _) => Some(claim),
            _ => None,
        }
    }

    /// Makes the script known that follows it, if there is one.
    pub(super) fn follower(&self) -> Option<Command> {
        let has_follower = match self {
            Command::Acquire(claim) => simulated::acquire(claim).has_follower(),
            Command::AcquireAll(claims) => simulated::acquire_all(claims).has_follower(),
            Command::Join(entry) | Command::Look(entry, _) => {
                simulated::look(&entry.claim, entry.reserve, Look::by_clock(0)).has_follower()
            }
            Command::Downgrade { held, next } => simulated::downgrade(held, next).has_follower(),
            _ => false,
        };
        has_follower.then(|| Command::Introduce(Box::new(self.clone())))
    }

    /// Tells a server the text of that script.
    pub(super) fn introduce(&self, server: &mut Server) {
        match self {
            Command::Acquire(claim) => simulated::acquire(claim).introduce(server),
            Command::AcquireAll(claims) => simulated::acquire_all(claims).introduce(server),
            Command::Downgrade { held, next } => simulated::downgrade(held, next).introduce(server),
            Command::Join(Entry { claim, reserve, .. })
            | Command::Look(Entry { claim, reserve, .. }, _) => {
                simulated::look(claim, *reserve, Look::by_clock(0)).introduce(server);
            }
            _ => {}
        }
    }
}

/// The scripts as a server runs them. Leases of the simulation are short, and so is the time for
/// which it hands a lock over: this constant may differ from what ships, and nothing else.
pub(super) fn scripts(claim_window: Duration) -> Vec<Script> {
    static MADE: LazyLock<Mutex<BTreeMap<Duration, Vec<Script>>>> = LazyLock::new(Mutex::default);
    let mut made = MADE.lock().unwrap();
    let all = || simulated::scripts().map(|text| script(text, claim_window)).collect();
    made.entry(claim_window).or_insert_with(all).clone()
}

fn script(text: &str, claim_window: Duration) -> Script {
    let line = |window: Duration| format!("\nlocal claim_window = {}\n", window.as_millis());
    let script = Script::new(text);
    if claim_window == CLAIM_WINDOW || !text.contains("claim_window") {
        return script;
    }
    assert_eq!(text.matches(&line(CLAIM_WINDOW)).count(), 1, "the window is set once");
    script.running(&text.replace(&line(CLAIM_WINDOW), &line(claim_window)))
}
