//! Which runtimes of callers have a connection of their own to a server, and when they get one.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, MutexGuard, Weak};
use std::time::Duration;

use tokio::runtime;
use tokio::runtime::Handle;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::clock::CLOCK;
use super::connection::Source;
use super::route::Route;
use crate::clock::Moment;
use crate::mutex::Mutex;
use crate::process::{self, ProcessId};

/// After how many commands over the background thread a runtime gets a connection. A runtime that
/// ends after a few commands is not worth one.
const COMMANDS_BEFORE: u32 = 64;
/// How many runtimes that want a connection are remembered before they are forgotten.
const MOST_WANTED: usize = 256;
/// After a silent connection, this many times as many commands go over the background thread. A
/// caller that blocks its runtime while it waits makes its connection silent.
const COMMANDS_AFTER_SILENCE: u32 = 16;
const MOST_COMMANDS_BEFORE: u32 = 16 * 1024;
/// A connection that has answered for so long shows that its callers do not block its runtime: what
/// made it silent now is the server, and what was silent before does not count any more.
const LIVED_WELL: Duration = Duration::from_secs(5 * 60);

/// The runtimes that have a connection, will have one, or cannot have one.
type RuntimeStates<S> = HashMap<runtime::Id, RuntimeState<S>>;

pub(super) struct LocalRuntimes<S: Source> {
    states: Arc<Mutex<RuntimeStates<S>>>,
    /// Cancelled when the node ends.
    over: CancellationToken,
}

enum RuntimeState<S: Source> {
    /// The runtime has sent this many commands, and gets a connection after `commands_before`.
    Wanted { commands: u32, commands_before: u32 },
    /// Its connection is being made.
    Opening,
    Open {
        route: Arc<Route<S>>,
        commands_before: u32,
        since: Moment,
        /// Ends the task that waits for the end of the runtime.
        _end: DropGuard,
    },
    /// This runtime cannot have a connection.
    Closed,
}

impl<S: Source> LocalRuntimes<S> {
    pub(super) fn new(over: CancellationToken) -> Self {
        Self { states: Arc::default(), over }
    }

    /// The route of the runtime `here`. `None`: there is none yet, and its commands take the one
    /// over the background thread.
    pub(super) fn route_of(&self, here: &Handle, background: &Route<S>) -> Option<Arc<Route<S>>> {
        let states = self.states.lock();
        match states.get(&here.id()) {
            Some(RuntimeState::Open { route, .. }) if route.connection.is_connected() => {
                Some(Arc::clone(route))
            }
            _ => {
                self.connect_if_due(states, here, background);
                None
            }
        }
    }

    /// Counts one more command of a runtime without a connection, and connects when it has sent
    /// enough of them.
    #[cold]
    fn connect_if_due(
        &self,
        mut states: MutexGuard<'_, RuntimeStates<S>>,
        here: &Handle,
        background: &Route<S>,
    ) {
        let (route, commands_before) = match states.entry(here.id()) {
            Entry::Occupied(mut state) => match state.get_mut() {
                RuntimeState::Open { route, commands_before, since, .. }
                    if route.connection.fell_silent() =>
                {
                    let lived = CLOCK.now().since(*since);
                    let commands_before = commands_after_silence(*commands_before, lived);
                    state.insert(RuntimeState::Wanted { commands: 1, commands_before });
                    return;
                }
                RuntimeState::Open { route, commands_before, .. } => {
                    let route = (Some(Arc::clone(route)), *commands_before);
                    state.insert(RuntimeState::Opening);
                    route
                }
                RuntimeState::Wanted { commands, commands_before }
                    if *commands < *commands_before =>
                {
                    *commands += 1;
                    return;
                }
                // The connection of the background thread shows whether the server refuses this
                // client.
                RuntimeState::Wanted { .. } if !background.connection.is_connected() => return,
                RuntimeState::Wanted { commands_before, .. } => {
                    let commands_before = *commands_before;
                    state.insert(RuntimeState::Opening);
                    (None, commands_before)
                }
                RuntimeState::Opening | RuntimeState::Closed => return,
            },
            Entry::Vacant(state) => {
                state
                    .insert(RuntimeState::Wanted { commands: 1, commands_before: COMMANDS_BEFORE });
                forget_wanted(&mut states, here.id());
                return;
            }
        };
        drop(states);
        // Outside of the mutex: this may start a thread.
        let route = route.unwrap_or_else(|| Arc::new(background.on(here)));
        self.connect_on(route, here, commands_before);
    }

    fn connect_on(&self, route: Arc<Route<S>>, home: &Handle, commands_before: u32) {
        let states = Arc::downgrade(&self.states);
        let (id, process) = (home.id(), process::id());
        let opening = Opening { states, id, commands_before, has_entry: true, process };
        home.spawn(opening.stay(route, self.over.clone()));
    }
}

/// How many commands go over the background thread after a connection fell silent. It had been made
/// after `before` commands, and has `lived` for so long.
fn commands_after_silence(before: u32, lived: Duration) -> u32 {
    let before = if lived < LIVED_WELL { before } else { COMMANDS_BEFORE };
    before.saturating_mul(COMMANDS_AFTER_SILENCE).min(MOST_COMMANDS_BEFORE)
}

/// Forgets who wants a connection, except for the one that came last, where there are many of them:
/// most of these runtimes have ended since, and their end is not reported.
fn forget_wanted<S: Source>(states: &mut RuntimeStates<S>, last: runtime::Id) {
    let is_wanted = |state: &RuntimeState<S>| matches!(state, RuntimeState::Wanted { .. });
    if states.values().filter(|state| is_wanted(state)).count() > MOST_WANTED {
        states.retain(|id, state| *id == last || !is_wanted(state));
    }
}

/// Keeps the entry of a runtime for as long as the runtime lives, or until another takes its place.
struct Opening<S: Source> {
    states: Weak<Mutex<RuntimeStates<S>>>,
    id: runtime::Id,
    commands_before: u32,
    has_entry: bool,
    process: ProcessId,
}

impl<S: Source> Opening<S> {
    /// Connects, and stays until the connection is given up, or the runtime or the node ends.
    async fn stay(mut self, route: Arc<Route<S>>, over: CancellationToken) {
        let end = over.child_token();
        // Without I/O or time a connect panics: it runs in a task of its own, so the panic does no
        // harm.
        let state = match route.connection.make().await {
            Some(Ok(_)) => {
                let kept = end.clone().drop_guard();
                let (commands_before, since) = (self.commands_before, CLOCK.now());
                RuntimeState::Open { route, commands_before, since, _end: kept }
            }
            Some(Err(_)) => return,
            None => RuntimeState::Closed,
        };
        if let Some(states) = self.states.upgrade() {
            states.lock().insert(self.id, state);
        }
        end.cancelled().await;
        self.has_entry = false;
    }
}

impl<S: Source> Drop for Opening<S> {
    fn drop(&mut self) {
        // In the child of a fork, another thread of the parent may hold the mutex.
        if !self.has_entry || self.process != process::id() {
            return;
        }
        if let Some(states) = self.states.upgrade() {
            let state = states.lock().remove(&self.id);
            drop(state);
        }
    }
}

#[cfg(test)]
mod tests;
