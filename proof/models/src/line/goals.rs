//! Situations that have to be reachable: where they are not, the properties promise nothing.

use super::state::{Phase, Process, State, process_of};

pub(super) fn behind_dead<const P: usize>(state: &State<P>) -> bool {
    let has_lock = |at: usize| state.lock.owner.is_some_and(|owner| process_of(owner) == at);
    let is_dead = (0..P).any(|at| state.processes[at].is_dead && has_lock(at));
    is_dead && state.processes.iter().any(|process| !process.is_dead && waits(process))
}

fn waits(process: &Process) -> bool {
    matches!(process.phase, Phase::InLine { joined: true, .. })
}

pub(super) fn unheard<const P: usize>(state: &State<P>) -> bool {
    let is_handed = |process: &Process| {
        let Phase::InLine { owner, .. } = process.phase else { return false };
        !process.listens && !process.is_dead && state.lock.owner == Some(owner)
    };
    state.lock.watcher.is_some() && state.processes.iter().any(is_handed)
}

pub(super) fn doubted<const P: usize>(state: &State<P>) -> bool {
    state.doubts == 0 && state.processes.iter().any(Process::relies)
}

pub(super) fn untold<const P: usize>(state: &State<P>) -> bool {
    state.lock.owner.is_none() && state.processes.first().is_some_and(waits)
}

pub(super) fn lost<const P: usize>(state: &State<P>) -> bool {
    let is_lost = |process: &Process| matches!(process.phase, Phase::Holding { left: 0, .. });
    state.processes.iter().any(is_lost) && state.processes.iter().any(Process::relies)
}

pub(super) fn late<const P: usize>(state: &State<P>) -> bool {
    let is_claiming = |process: &Process| matches!(process.phase, Phase::Claiming { .. });
    state.processes.iter().any(is_claiming) && state.processes.iter().any(Process::relies)
}

pub(super) fn back<const P: usize>(state: &State<P>) -> bool {
    let is_back = |process: &Process| {
        let Phase::Rotating { next, .. } = process.phase else { return false };
        process.calls.iter().any(|call| call.owner == next)
    };
    state.processes.iter().any(is_back)
}
