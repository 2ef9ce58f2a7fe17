//! The kinds of faults, and which of them a topology suffers.

use crate::topology::Topology;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Kind {
    /// kill -9 of a server that comes back with its data.
    ServerKill,
    /// SIGSTOP of a server.
    ServerStop,
    /// SIGSTOP of a worker process.
    ClientStop,
    /// kill -9 of a worker process; another one takes its place.
    ClientKill,
    /// `CLIENT PAUSE`.
    Pause,
    /// A command is carried out and its reply lost.
    DropReply,
    /// A command is lost.
    DropRequest,
    /// All connections to a server are reset.
    Reset,
    /// Connections stay open and nothing moves, until it does.
    BlackHole,
    /// Requests or replies are late.
    Delay,
    /// Every byte is a packet.
    Split,
    /// Connections are reset, and take long to be made anew: longer than most commands may.
    ConnectSlow,
    /// Connections are reset, and some of those that follow get no answer while they are made.
    ConnectSilent,
    /// Connections are reset, and so are some of those that follow, half made.
    ConnectCut,
    /// The server forgets all scripts.
    ScriptFlush,
    /// kill -9 of a server that comes back without its data.
    RestartEmpty,
    /// The same, with a clock that is off when it boots and is set right then.
    WrongBoot,
    /// A server forgets all keys.
    FlushAll,
    /// A server's wall clock jumps, and stays there.
    Clock,
    /// It jumps, and back before everybody has had a look at it.
    Blip,
    /// The replica becomes the master: by hand, stale or not, with the old one alive or not; by
    /// order of the sentinels; or in a cluster, whose masters wait for their replica.
    Failover,
    /// SIGSTOP of a sentinel.
    SentinelStop,
    /// The slot of a lock goes to another master of the cluster.
    MoveSlot,
}

/// What a lock on Redis promises to survive, and what a fencing token is for.
pub(crate) const WITHIN: [Kind; 15] = [
    Kind::ServerKill,
    Kind::ServerStop,
    Kind::ClientStop,
    Kind::ClientKill,
    Kind::Pause,
    Kind::DropReply,
    Kind::DropRequest,
    Kind::Reset,
    Kind::BlackHole,
    Kind::Delay,
    Kind::Split,
    Kind::ScriptFlush,
    Kind::ConnectSlow,
    Kind::ConnectSilent,
    Kind::ConnectCut,
];

/// What the restart guard makes of no consequence, as long as it happens to a minority. A blip is
/// not among these: a client that asks before it and after it sees a clock that has not moved.
pub(crate) const SURVIVED: [Kind; 3] = [Kind::RestartEmpty, Kind::WrongBoot, Kind::Clock];

/// What breaks the promise of exclusion: lost data, a clock that jumps, or both.
pub(crate) fn beyond(topology: Topology, turn: u64) -> Vec<Kind> {
    let (loses_data, jumps) = (turn != 1, turn != 0);
    let mut kinds = Vec::new();
    if topology == Topology::Cluster {
        return vec![Kind::FlushAll; 4];
    }
    if topology == Topology::Sentinel {
        return vec![Kind::FlushAll, Kind::FlushAll, Kind::Failover];
    }
    if loses_data {
        kinds.extend([Kind::RestartEmpty, Kind::FlushAll].repeat(2));
        let failovers = if topology == Topology::Replicated { 7 } else { 0 };
        kinds.extend(vec![Kind::Failover; failovers]);
    }
    if jumps {
        kinds.extend([Kind::Clock, Kind::Blip]);
    }
    if loses_data && jumps && topology != Topology::Replicated {
        kinds.push(Kind::WrongBoot);
    }
    kinds
}

/// What histories within the promise have more of, besides the kinds that all have.
pub(crate) fn peculiar(topology: Topology, turn: u64) -> Vec<Kind> {
    match topology {
        Topology::Sentinel if turn.is_multiple_of(2) => {
            vec![Kind::Failover, Kind::SentinelStop, Kind::SentinelStop]
        }
        Topology::Sentinel => vec![Kind::SentinelStop; 3],
        Topology::Cluster => vec![Kind::MoveSlot, Kind::Failover, Kind::MoveSlot],
        _ => Vec::new(),
    }
}

impl Kind {
    /// Can this happen to these servers?
    pub(crate) fn concerns(self, topology: Topology) -> bool {
        let is_alone = !matches!(topology, Topology::Sentinel | Topology::Cluster);
        match self {
            Kind::RestartEmpty | Kind::WrongBoot | Kind::Clock | Kind::Blip => is_alone,
            Kind::Failover => !is_alone || topology == Topology::Replicated,
            Kind::SentinelStop => topology == Topology::Sentinel,
            Kind::MoveSlot => topology == Topology::Cluster,
            _ => true,
        }
    }

    pub(crate) fn hits_a_client(self) -> bool {
        matches!(self, Kind::ClientStop | Kind::ClientKill)
    }

    pub(crate) fn hits_the_wire(self) -> bool {
        use Kind::{BlackHole, Delay, DropReply, DropRequest, Reset, Split};
        matches!(self, DropReply | DropRequest | Reset | BlackHole | Delay | Split)
            || self.hits_connects()
    }

    /// What happens while connections are made.
    pub(crate) fn hits_connects(self) -> bool {
        matches!(self, Kind::ConnectSlow | Kind::ConnectSilent | Kind::ConnectCut)
    }
}
