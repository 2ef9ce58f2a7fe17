//! Which master counts, by what the sentinels of a failover group name.

use super::majority::is_majority;
use crate::mutex::Mutex;

/// The host and the port of a master.
pub(super) type MasterAddress = (String, u16);

/// The master that a sentinel names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Naming {
    pub(super) address: MasterAddress,
    /// Of the configuration that the sentinel has of this master: each failover has a higher one.
    pub(super) epoch: u64,
    /// The sentinel does not find the master down.
    pub(super) is_up: bool,
}

/// The last naming of each sentinel; `None`: it has named none yet.
#[derive(Debug)]
pub(super) struct Namings(Mutex<Vec<Option<Naming>>>);

/// How much speaks for a master; the greater one has precedence. A majority of all sentinels comes
/// first, then the latest failover, then the number of votes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Standing {
    pub(super) has_majority: bool,
    epoch: u64,
    votes: usize,
}

impl Namings {
    pub(super) fn of(sentinels: usize) -> Self {
        Self(Mutex::new(vec![None; sentinels]))
    }

    pub(super) fn note(&self, sentinel: usize, naming: &Naming) {
        self.0.lock()[sentinel] = Some(naming.clone());
    }

    pub(super) fn standing(&self, address: &MasterAddress) -> Standing {
        let namings = self.0.lock();
        let votes = || namings.iter().flatten().filter(|naming| naming.address == *address);
        Standing {
            has_majority: is_majority(votes().count(), namings.len()),
            epoch: votes().map(|naming| naming.epoch).max().unwrap_or_default(),
            votes: votes().count(),
        }
    }

    /// Was the master at this address replaced by another one that is named, whether that answers
    /// or not? The master that a majority names may be the one that has just died, while one
    /// sentinel knows its successor already, by a higher epoch.
    pub(super) fn is_replaced(&self, address: &MasterAddress) -> bool {
        let own = self.standing(address);
        let others: Vec<_> = self.0.lock().iter().flatten().map(|it| it.address.clone()).collect();
        !own.has_majority
            && others.iter().filter(|other| *other != address).any(|other| {
                let other = self.standing(other);
                other.epoch > own.epoch || other.has_majority && other.epoch == own.epoch
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(port: u16) -> MasterAddress {
        ("10.0.0.1".to_owned(), port)
    }

    /// What each sentinel names: a port and its epoch; 0: none.
    fn named(namings: &[(u16, u64)]) -> Namings {
        let all = Namings::of(namings.len());
        for (sentinel, (port, epoch)) in
            namings.iter().enumerate().filter(|(_, (port, _))| *port > 0)
        {
            let naming = Naming { address: address(*port), epoch: *epoch, is_up: true };
            all.note(sentinel, &naming);
        }
        all
    }

    #[test]
    fn a_master_is_replaced_by_the_one_of_a_majority_or_of_a_later_failover() {
        for (namings, old_is_replaced, new_is_replaced) in [
            // The one that was cut off names the old master.
            ([(1, 5), (2, 6), (2, 6)], true, false),
            ([(1, 0), (2, 0), (2, 0)], true, false),
            // The first one that knows of the failover.
            ([(1, 5), (1, 5), (2, 6)], false, false),
            // The third one has named none.
            ([(1, 5), (2, 6), (0, 0)], true, false),
            ([(1, 5), (2, 5), (0, 0)], false, false),
            ([(1, 5), (0, 0), (0, 0)], false, true),
            // Two were told of another master by hand, which takes its epoch away.
            ([(1, 5), (2, 0), (2, 0)], false, false),
        ] {
            let all = named(&namings);
            let replaced = [1, 2].map(|port| all.is_replaced(&address(port)));
            assert_eq!(replaced, [old_is_replaced, new_is_replaced], "{namings:?}");
        }
    }

    #[test]
    fn a_majority_has_precedence_then_the_latest_failover_then_the_votes() {
        let best = |namings: &[(u16, u64)]| {
            let all = named(namings);
            (1..=3).max_by_key(|port| all.standing(&address(*port))).unwrap()
        };
        assert_eq!(best(&[(1, 5), (1, 5), (2, 6)]), 1);
        assert_eq!(best(&[(1, 5), (1, 5), (2, 6), (0, 0), (0, 0)]), 2);
        assert_eq!(best(&[(1, 6), (1, 6), (2, 6), (0, 0), (0, 0)]), 1);
    }

    #[test]
    fn the_last_naming_of_a_sentinel_counts() {
        let all = named(&[(1, 5), (1, 5), (2, 6)]);
        let naming = Naming { address: address(2), epoch: 6, is_up: false };
        all.note(0, &naming);
        assert!(all.is_replaced(&address(1)) && all.standing(&address(2)).has_majority);
    }
}
