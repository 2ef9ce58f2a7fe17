//! Who holds a lock of a node: one owner, or a group that holds it together.

use std::time::Duration;

use redis_model::Content;

use super::node::{Answer, Command, Micros, Node, PPM};
use super::node_plan::{NodePlan, Upheaval};
use super::plan::KEYS;
use super::scripts::By;
use crate::backend::{Acquired, Claim};
use crate::key::LockKey;
use crate::kind::Kind;
use crate::owner::{Owner, hold_of};

/// What stands in the key of a lock that a group holds.
const MARKERS: [&str; 2] = ["<readers>", "<permits>"];

impl Node {
    /// Until when a key is this owner's, by whichever value, unless it lets go.
    pub(crate) fn held_until(&self, key: &LockKey, owner: &Owner) -> Option<Micros> {
        let is_its = |holder: &str| hold_of(holder) == hold_of(owner.as_str());
        if let Some(leases) = self.group(key.redis_key()) {
            // A late copy of its acquire may have entered beside the value that it holds now.
            let its = leases.into_iter().filter(|(holder, _)| is_its(holder));
            return its.map(|(_, ends)| ends).max();
        }
        let lease = self.lease(key.redis_key());
        lease.filter(|(holder, _)| is_its(holder)).map(|(_, ends)| ends)
    }

    /// The leases of the group that holds a lock together, the first that ends first; `None`: no
    /// group holds it.
    fn group(&self, redis_key: &str) -> Option<Vec<(String, Micros)>> {
        let marker = self.text(redis_key)?;
        let leases = MARKERS.contains(&marker.as_str()).then(|| {
            match self.server.keyspace().get(holders_key(redis_key).as_bytes()) {
                Some(Content::Sorted(holders)) => holders.in_order(),
                _ => Vec::new(),
            }
        });
        let lease = |(owner, ends): (&[u8], i64)| {
            let shown = u64::try_from(ends).unwrap_or_default() + self.set_back;
            let gone_by = shown.saturating_sub(self.origin);
            let ends = gone_by.saturating_mul(PPM).div_ceil(self.pace());
            (String::from_utf8_lossy(owner).into_owned(), ends)
        };
        Some(leases?.into_iter().map(lease).collect())
    }

    /// When there is room for one more of a shared kind, of which `places` may hold the lock at
    /// once, as far as the last command shows; `None`: there is.
    pub(crate) fn has_room_from(
        &self,
        redis_key: &str,
        places: usize,
        now: Micros,
    ) -> Option<Micros> {
        let Some(group) = self.group(redis_key) else { return self.lease_ends(redis_key) };
        let live: Vec<Micros> =
            group.into_iter().map(|(_, ends)| ends).filter(|ends| now < *ends).collect();
        let surplus = (live.len() + 1).checked_sub(places)?;
        surplus.checked_sub(1).map(|last| live[last])
    }
}

/// Where the group stands that holds a lock.
fn holders_key(redis_key: &str) -> String {
    let key = LockKey::new("", redis_key);
    key.map(|key| key.holders_key()).unwrap_or_default()
}

/// Also where the clock shows less than when the history began.
#[test]
fn leases_end_in_time_on_a_clock_that_was_set_back() {
    for kind in [Kind::Exclusive, Kind::Read] {
        let (origin, outages, upheavals) = (1 << 50, Vec::new(), Vec::new());
        let clock =
            NodePlan { rate: 0, origin, stands_still: false, last_token: 0, outages, upheavals };
        let mut node = Node::new(&clock, None);
        node.upset(Upheaval::SetBack(600), 100);
        let key = LockKey::new("", KEYS[0]).unwrap();
        let (owner, expire) = (Owner::of_nobody("p"), Duration::from_millis(200));
        let claim = Claim { key, owner, expire, kind };
        let granted = node.execute(&Command::Acquire(claim.clone()), By::Text, 150);
        assert!(matches!(granted, Answer::Acquired(Acquired::Granted { .. })), "{granted:?}");
        let ends = node.held_until(&claim.key, &claim.owner).unwrap();
        // The expiry of a key is in whole milliseconds.
        assert!((350_000..=351_000).contains(&ends), "{kind:?}: {ends}");
        assert_eq!(node.has_room_from(KEYS[0], 1, 150_000), Some(ends));
    }
}
