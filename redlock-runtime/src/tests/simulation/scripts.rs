//! Which script a command runs, and what a server does that does not know it.

use super::node::{Answer, Command, Node};
use super::plan::Tick;
use crate::backend::Claim;

/// The scripts in `backend/scripts`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Script {
    Acquire,
    Raise,
    Renew,
    Release,
    Join,
    Rotate,
    Nudge,
}

/// How a command names its script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    Digest,
    Text,
}

impl Script {
    pub(super) const ALL: [Script; 7] = [
        Script::Acquire,
        Script::Raise,
        Script::Renew,
        Script::Release,
        Script::Join,
        Script::Rotate,
        Script::Nudge,
    ];

    /// What is made known ahead of it, so that a release does not find it unknown.
    pub(super) fn follower(self) -> Option<Script> {
        matches!(self, Script::Acquire | Script::Join).then_some(Script::Release)
    }
}

impl Command {
    /// `None`: no script.
    pub(super) fn script(&self) -> Option<Script> {
        Some(match self {
            Command::Acquire(_) => Script::Acquire,
            Command::Raise(..) => Script::Raise,
            Command::Renew(_) => Script::Renew,
            Command::Release(_) | Command::Leave(_) | Command::GiveBack(..) => Script::Release,
            Command::Join(_) | Command::Look(_) => Script::Join,
            Command::Rotate { .. } => Script::Rotate,
            Command::Nudge(_) => Script::Nudge,
            Command::Introduce(script) => *script,
            Command::Roll(_) => return None,
        })
    }
}

impl Command {
    /// Who lets go of a lock with it.
    pub(super) fn departing(&self) -> Option<&Claim> {
        match self {
            Command::Release(claim) | Command::Leave(claim) | Command::GiveBack(claim, _) => {
                Some(claim)
            }
            _ => None,
        }
    }
}

impl Node {
    /// Carries a command out, if the node knows its script or is told its text.
    pub(super) fn receive(&mut self, command: &Command, by: By, at: Tick) -> Answer {
        if let Some(script) = command.script() {
            match by {
                By::Digest if self.forgotten.contains(&script) => return Answer::NoScript,
                By::Digest => {}
                By::Text => self.forgotten.retain(|forgotten| *forgotten != script),
            }
        }
        self.execute(command, at)
    }
}
