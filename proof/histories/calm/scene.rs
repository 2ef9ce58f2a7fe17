//! The kinds of histories without faults.

/// What is peculiar to a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scene {
    /// Callers that pause between their calls.
    Pauses,
    /// Callers that arrive by chance, whether or not those before them are served.
    Arrivals,
    /// One caller begins to acquire and does not poll that for a while.
    Stalls,
    /// One caller keeps its guard after the end of its lease.
    Losses,
    /// Some clients or all take their connections from pools.
    Pools,
    /// The key of a lock is deleted by hand.
    Deletions,
    /// Many callers at once, then none.
    Bursts,
    /// Callers that give up, and leases of different lengths.
    Cancellations,
    /// Processes are killed.
    Deaths,
    /// Readers that hardly pause, and one writer in each process.
    Readers,
    /// Permits, fewer than those who want one.
    Permits,
    /// The same, and processes are killed.
    DeadPermits,
    /// Calls for two or three of three keys, in any order, beside calls for one of them.
    Groups,
    /// The same, and processes are killed.
    DeadGroups,
}

impl Scene {
    pub(crate) const ALL: [Scene; 14] = [
        Scene::Pauses,
        Scene::Arrivals,
        Scene::Stalls,
        Scene::Losses,
        Scene::Pools,
        Scene::Deletions,
        Scene::Bursts,
        Scene::Cancellations,
        Scene::Deaths,
        Scene::Readers,
        Scene::Permits,
        Scene::DeadPermits,
        Scene::Groups,
        Scene::DeadGroups,
    ];

    /// Are processes killed in it?
    pub(crate) fn kills(self) -> bool {
        matches!(self, Scene::Deaths | Scene::DeadPermits | Scene::DeadGroups)
    }

    pub(crate) fn has_groups(self) -> bool {
        matches!(self, Scene::Groups | Scene::DeadGroups)
    }
}
