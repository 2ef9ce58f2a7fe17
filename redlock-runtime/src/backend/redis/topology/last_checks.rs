//! What checks of a cluster have found before.

use std::collections::{HashMap, HashSet};
use std::time::SystemTime;

use crate::health::NodeHealth;
use crate::mutex::Mutex;

/// What the checks so far have found: whether each master of the last one answered, and since when.
#[derive(Debug, Default)]
pub(super) struct LastChecks(Mutex<HashMap<String, (bool, SystemTime)>>);

impl LastChecks {
    /// Since when the master has been so.
    pub(super) fn learn(&self, master: &str, is_up: bool) -> SystemTime {
        let mut known = self.0.lock();
        let now = SystemTime::now();
        let last = known.entry(master.to_owned()).or_insert((is_up, now));
        if last.0 != is_up {
            *last = (is_up, now);
        }
        last.1
    }

    /// A check has found these masters, and no others: addresses may change with each failover.
    pub(super) fn forget_others(&self, than: &[NodeHealth]) {
        let found: HashSet<&str> = than.iter().map(NodeHealth::node).collect();
        self.0.lock().retain(|master, _| found.contains(master.as_str()));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn masters_that_are_none_any_more_are_forgotten() {
        let checks = LastChecks::default();
        let [_, kept] = ["10.0.0.1:1", "10.0.0.2:1"].map(|name| checks.learn(name, true));
        let found = NodeHealth::new("10.0.0.2:1", Duration::ZERO, Ok(()), kept);
        checks.forget_others(&[found]);
        assert_eq!(checks.0.lock().keys().collect::<Vec<_>>(), ["10.0.0.2:1"]);
        assert_eq!(checks.learn("10.0.0.2:1", true), kept);
    }
}
