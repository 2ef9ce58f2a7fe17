//! Which faults a history suffers, and what is promised under them. A seed is a plan.

use std::collections::BTreeSet;

use clap::ValueEnum;
use fastrand::Rng;

use crate::calm::Calm;
use crate::kind::{Kind, SURVIVED, WITHIN, beyond, peculiar};
use crate::topology::Topology;

/// The replicas of a master that sentinels watch.
const REPLICAS: u32 = 2;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Fault {
    pub kind: Kind,
    /// When it begins, counted from the start of the work.
    pub at_ms: u64,
    /// For how long, if it has a length.
    pub lasts_ms: u64,
    /// The server or the worker, modulo their number.
    pub target: usize,
    /// For choices within the kind.
    pub choice: u64,
}

/// One history.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub seed: u64,
    pub topology: Topology,
    pub precautions: Precautions,
    pub faults: Vec<Fault>,
    /// In place of faults: callers of all kinds.
    pub calm: Option<Calm>,
}

/// Where the restart guard is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Guard {
    Off,
    /// With several servers, as is the default of the library.
    On,
    /// With a single one, too.
    All,
}

/// What the clients do against faults.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Precautions {
    pub guard: Guard,
    /// With a master and replicas: how many of them must have a lock.
    pub min_replicas: u32,
}

/// What a history is to suffer, apart from what its seed says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Suffering {
    pub count: usize,
    pub length_ms: u64,
    pub precautions: Precautions,
    /// These servers and this kind of fault and no other, to hunt for something.
    pub topology: Option<Topology>,
    pub only: Option<Kind>,
}

/// What must hold in a history, apart from what must hold in all: no step after a deadline, no
/// fault of the fenced resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Promise {
    /// (a) No two holders.
    pub exclusion: bool,
    /// (b) Growing tokens.
    pub order: bool,
}

impl Plan {
    /// Seeds go through the topologies in turn, and with each of them through histories within the
    /// promise and beyond it.
    pub(crate) fn of(seed: u64, suffering: Suffering) -> Plan {
        let Suffering { count, length_ms, precautions, only, .. } = suffering;
        let count_of_all = Topology::ALL.len() as u64;
        let (turn, round) =
            (usize::try_from(seed % count_of_all).unwrap_or(0), seed / count_of_all);
        let is_beyond = round % 2 == 1;
        let topology = suffering.topology.unwrap_or(Topology::ALL[turn]);
        let mut precautions = precautions;
        let mut rng = Rng::with_seed(seed);
        let mut kinds = if is_beyond {
            beyond(topology, round / 2 % 3)
        } else if topology.is_quorum() && precautions.guard != Guard::Off {
            let chosen = usize::try_from(round / 2).unwrap_or(0) % SURVIVED.len();
            vec![SURVIVED[chosen]; 2]
        } else {
            peculiar(topology, round / 2)
        };
        if let Some(only) = only {
            kinds = vec![only; count];
            kinds.retain(|kind| kind.concerns(topology));
        }
        if topology == Topology::Sentinel && !is_beyond && kinds.contains(&Kind::Failover) {
            // What all replicas have, the next master has.
            precautions.min_replicas = REPLICAS;
        }
        while kinds.len() < count && only.is_none() {
            kinds.push(rng.choice(WITHIN).unwrap_or(Kind::Reset));
        }
        rng.shuffle(&mut kinds);
        let plan = Plan { seed, topology, precautions, faults: Vec::new(), calm: None };
        let mut plan = plan.spread(&kinds, topology.lasts_ms(length_ms), &mut rng);
        if !is_beyond {
            let chosen = rng.usize(0..1_000);
            let hits = plan.faults.iter_mut().filter(|fault| SURVIVED.contains(&fault.kind));
            hits.for_each(|fault| {
                fault.target = chosen + fault.target % topology.minority().max(1);
            });
        }
        plan
    }

    /// All kinds in a random order, for runs that last until their work is done. Clocks jump back
    /// again, or in the end they would be years apart.
    pub(crate) fn wave(
        seed: u64,
        topology: Topology,
        length_ms: u64,
        precautions: Precautions,
    ) -> Plan {
        let mut rng = Rng::with_seed(seed);
        let mut kinds = Kind::value_variants().to_vec();
        kinds.retain(|kind| *kind != Kind::Clock && kind.concerns(topology));
        rng.shuffle(&mut kinds);
        let plan = Plan { seed, topology, precautions, faults: Vec::new(), calm: None };
        plan.spread(&kinds, length_ms, &mut rng)
    }

    /// A history without faults.
    pub(crate) fn calm(calm: Calm) -> Plan {
        let (seed, topology) = (calm.seed, calm.topology);
        let precautions = Precautions { guard: Guard::On, min_replicas: 0 };
        Plan { seed, topology, precautions, faults: Vec::new(), calm: Some(calm) }
    }

    fn spread(mut self, kinds: &[Kind], length_ms: u64, rng: &mut Rng) -> Plan {
        for &kind in kinds {
            // From a fraction of a lease to three of them, short ones more often; one server cannot
            // be away for as long as one of five.
            let longest = if self.topology.is_quorum() { 1_800 } else { 900 };
            let most = rng.u64(60..longest);
            let lasts_ms = rng.u64(30..most);
            self.faults.push(Fault {
                kind,
                at_ms: rng.u64(0..length_ms),
                lasts_ms,
                target: rng.usize(0..1_000),
                choice: rng.u64(0..u64::MAX),
            });
        }
        self.faults.sort_by_key(|fault| fault.at_ms);
        self
    }

    pub(crate) fn is_guarded(&self) -> bool {
        match self.precautions.guard {
            Guard::Off => false,
            Guard::On => self.topology.is_quorum(),
            Guard::All => self.topology != Topology::Cluster,
        }
    }

    pub(crate) fn min_replicas(&self) -> u32 {
        match self.topology {
            Topology::Replicated | Topology::Sentinel => self.precautions.min_replicas,
            _ => 0,
        }
    }

    /// Does the next master lack what the one before it had granted?
    fn forgets_in_failovers(&self) -> bool {
        match self.topology {
            Topology::Cluster => false,
            Topology::Sentinel => self.min_replicas() < REPLICAS,
            _ => true,
        }
    }

    pub(crate) fn is_beyond(&self) -> bool {
        !self.promise().exclusion
    }

    /// Two holders are possible once a server has forgotten a lock or has let it expire too early:
    /// its data is gone, a stale replica leads, its clock has jumped. With several servers and the
    /// restart guard, this takes more than a minority that restarts empty or jumps.
    ///
    /// Tokens grow as long as the counter *or* the clock survives: they are the counter plus one or
    /// the server's time, whichever is higher. So they may fall only where data is lost (or a stale
    /// replica leads) and a clock jumps, in one history.
    pub(crate) fn promise(&self) -> Promise {
        let has = |kind| self.faults.iter().any(|fault| fault.kind == kind);
        let doubtful = self.doubtful();
        let most = if self.is_guarded() { self.topology.minority() } else { 0 };
        let forgets = self.calm.as_ref().is_some_and(|calm| !calm.keeps_exclusion());
        let fails_over = has(Kind::Failover) && self.forgets_in_failovers();
        let forgets = forgets || has(Kind::FlushAll) || fails_over || has(Kind::Blip);
        let jumps = has(Kind::Clock) || has(Kind::Blip) || has(Kind::WrongBoot);
        let loses_data = has(Kind::FlushAll) || fails_over || has(Kind::RestartEmpty);
        let loses_data = loses_data || has(Kind::WrongBoot);
        Promise { exclusion: !forgets && doubtful.len() <= most, order: !(loses_data && jumps) }
    }

    /// Servers that forget what they granted, or let it expire too early.
    pub(crate) fn doubtful(&self) -> BTreeSet<usize> {
        SURVIVED.into_iter().flat_map(|kind| self.targets(kind)).collect()
    }

    fn targets(&self, kind: Kind) -> impl Iterator<Item = usize> {
        let hits = self.faults.iter().filter(move |fault| fault.kind == kind);
        hits.map(|fault| fault.target % self.topology.servers())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn promise(topology: Topology, guard: Guard, kinds: &[(Kind, usize)]) -> Promise {
        let fault = |&(kind, target)| Fault { kind, at_ms: 0, lasts_ms: 0, target, choice: 0 };
        let faults = kinds.iter().map(fault).collect();
        let precautions = Precautions { guard, min_replicas: 0 };
        Plan { seed: 0, topology, precautions, faults, calm: None }.promise()
    }

    #[test]
    fn what_is_promised_depends_on_the_faults() {
        let both = Promise { exclusion: true, order: true };
        let order = Promise { exclusion: false, order: true };
        let none = Promise { exclusion: false, order: false };
        for topology in Topology::ALL {
            assert_eq!(promise(topology, Guard::Off, &WITHIN.map(|kind| (kind, 0))), both);
            for kind in
                [Kind::RestartEmpty, Kind::FlushAll, Kind::Clock, Kind::Blip, Kind::Failover]
            {
                let waits = topology == Topology::Cluster && kind == Kind::Failover;
                let promised = if waits { both } else { order };
                assert_eq!(promise(topology, Guard::Off, &[(kind, 0)]), promised);
            }
            for kind in [Kind::SentinelStop, Kind::MoveSlot] {
                assert_eq!(promise(topology, Guard::Off, &[(kind, 0)]), both);
            }
            let lost = [(Kind::Clock, 0), (Kind::FlushAll, 0)];
            assert_eq!(promise(topology, Guard::Off, &lost), none);
        }
        let one = [(Kind::RestartEmpty, 1), (Kind::RestartEmpty, 4)];
        assert_eq!(promise(Topology::Three, Guard::On, &one), both, "one server, twice");
        assert_eq!(promise(Topology::One, Guard::On, &one), order);
        let wrong = [(Kind::WrongBoot, 1), (Kind::RestartEmpty, 1)];
        assert_eq!(
            promise(Topology::Three, Guard::On, &wrong),
            Promise { exclusion: true, order: false }
        );
        assert_eq!(promise(Topology::Three, Guard::Off, &wrong), none);
        let two = [(Kind::RestartEmpty, 1), (Kind::Clock, 2)];
        assert_eq!(promise(Topology::Three, Guard::On, &two), none);
        assert_eq!(
            promise(Topology::Five, Guard::On, &two),
            Promise { exclusion: true, order: false }
        );
    }

    #[test]
    fn a_seed_is_a_plan() {
        let suffering = |guard| Suffering {
            count: 13,
            length_ms: 3_000,
            precautions: Precautions { guard, min_replicas: 0 },
            topology: None,
            only: None,
        };
        for seed in 0..32 {
            let plan = Plan::of(seed, suffering(Guard::On));
            let again = Plan::of(seed, suffering(Guard::On));
            assert_eq!(format!("{plan:?}"), format!("{again:?}"));
            assert_eq!(plan.faults.len(), 13);
            assert_eq!(seed / 6 % 2 == 1, plan.is_beyond(), "{seed}");
            assert!(plan.faults.iter().all(|fault| fault.kind.concerns(plan.topology)), "{seed}");
        }
        let beyond = Plan::of(9, suffering(Guard::Off));
        assert_eq!(beyond.topology, Topology::Replicated);
        assert_eq!(beyond.targets(Kind::Failover).count(), 7);
        let watched = Plan::of(4, suffering(Guard::On));
        assert_eq!((watched.topology, watched.min_replicas()), (Topology::Sentinel, REPLICAS));
        assert_eq!(watched.targets(Kind::Failover).count(), 1);
        let clocks_only = Plan::of(21, suffering(Guard::Off));
        assert_eq!(clocks_only.promise(), Promise { exclusion: false, order: true });
    }
}
