//! What happens in a history, a line an event, for whoever wants to read it.

use std::fmt::Write as _;

use super::line::Entry;
use super::node::Command;
use super::plan::Tick;
use super::world::State;
use crate::backend::Claim;

impl State {
    pub(super) fn note(&mut self, at: Tick, what: impl FnOnce(&mut Self) -> String) {
        if self.trace.is_some() {
            let line = what(self);
            let _ = writeln!(self.trace.get_or_insert_default(), "{at:>6} ms  {line}");
        }
    }

    /// `a3`: the third owner value of this history.
    pub(super) fn name(&mut self, claim: &Claim) -> String {
        let known = self.owners.iter().position(|owner| *owner == claim.owner);
        let at = known.unwrap_or_else(|| {
            self.owners.push(claim.owner.clone());
            self.owners.len() - 1
        });
        format!("a{} ({})", at + 1, claim.key.name())
    }

    fn names(&mut self, claims: &[Claim]) -> String {
        let names: Vec<_> = claims.iter().map(|claim| self.name(claim)).collect();
        names.join(", ")
    }

    pub(super) fn show(&mut self, command: &Command) -> String {
        match command {
            Command::Acquire(claim) => format!("acquire {}", self.name(claim)),
            Command::Raise(claim, to) => format!("raise {} to {to}", self.name(claim)),
            Command::Release(claim) => format!("release {}", self.name(claim)),
            Command::Founders(offer) => {
                // Without the dates: a history is replayed at another time.
                let list = offer.as_ref().and_then(|offer| offer.founders.split("=@").next());
                format!("founders, or else {list:?}")
            }
            Command::Join(Entry { claim, .. }) => format!("join {}", self.name(claim)),
            Command::Look(Entry { claim, .. }, _) => format!("look {}", self.name(claim)),
            Command::Leave(claim) => format!("leave {}", self.name(claim)),
            Command::GiveBack(claim, drawn) => {
                format!("give back {} behind {}", self.name(claim), drawn.used)
            }
            Command::Retain(claim, left) => format!("retain {} for {left:?}", self.name(claim)),
            Command::Rotate { held, drawn, next } => {
                let (held, next) = (self.name(held), self.name(&next.claim));
                format!("rotate {held} behind {} for {next}", drawn.used)
            }
            Command::Downgrade { held, next } => {
                format!("downgrade {} to {}", self.name(held), self.name(next))
            }
            Command::Nudge(claim) => format!("nudge {}", claim.key.name()),
            Command::Introduce(command) => format!("what follows {}", self.show(command)),
            Command::Renew(claims) => format!("renew {}", self.names(claims)),
            Command::ReleaseAll(claims) => format!("release all of {}", self.names(claims)),
            Command::AcquireAll(claims) => format!("acquire all of {}", self.names(claims)),
        }
    }
}
