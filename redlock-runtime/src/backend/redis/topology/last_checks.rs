//! What checks of a cluster have found before.

use std::collections::HashMap;
use std::time::SystemTime;

use crate::mutex::Mutex;

/// What the checks so far have found: whether each master answered, and since when.
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
}
