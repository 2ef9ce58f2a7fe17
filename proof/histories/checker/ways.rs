//! How long a lock is on its way to those who get it.

use std::collections::HashMap;

use super::waits::process_of;
use super::{Hold, Idle};
use crate::log::Moment;

/// In nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct Ways {
    /// From the end of a body to a body of another process that waited.
    pub hand_overs: Vec<u64>,
    /// To a call that found the lock free: what a round trip takes on this machine.
    pub calls: Vec<u64>,
}

impl Ways {
    /// A way is an idle time that nothing but the protocol explains.
    pub(crate) fn of(idle: &[Idle], holds: &[Hold]) -> Ways {
        let mut ends: HashMap<(&str, Moment), &str> = HashMap::new();
        let mut begins: HashMap<(&str, Moment), &str> = HashMap::new();
        for hold in holds {
            ends.extend(hold.over.map(|over| ((&*hold.key, over), &*hold.attempt)));
            begins.insert((&hold.key, hold.since), &hold.attempt);
        }
        let mut ways = Ways::default();
        for idle in idle {
            let Some(to) = begins.get(&(&*idle.key, idle.until)) else { continue };
            match ends.get(&(&*idle.key, idle.from)) {
                Some(from) if process_of(from) != process_of(to) => {
                    ways.hand_overs.push(idle.lasts());
                }
                None if *to == idle.waiter => ways.calls.push(idle.lasts()),
                _ => {}
            }
        }
        ways
    }
}
