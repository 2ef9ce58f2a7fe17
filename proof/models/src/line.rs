//! The line of waiting processes on one server: hand-overs, tenures that are passed on inside of a
//! process, and what is late, lost or dead in between.
//!
//! A command, a reply or a call may be late by any number of ticks, or lost; a process may be
//! frozen between any two steps, or die. Nothing asks how old a lease is when a tenure is passed
//! on, nor how late a call is: as long as anything is left of the lease, both may be. So the result
//! does not rest on the thresholds of the code.

use stateright::{Model, Property};

use crate::check::{Goal, Proof};
use crate::few::Few;

mod canonical;
mod fair;
mod goals;
mod messages;
mod process;
mod server;
mod state;

use messages::{Call, Command};
use state::{DRIFT, History, Lock, Phase, Process, State};

pub(crate) const ONE_HOLDER: &str = "at most one hold relies on its lease";
pub(crate) const RISING: &str = "fencing tokens rise in the order in which holds begin";
pub(crate) const JOINS_ONCE: &str = "an owner joins the line at most once";
pub(crate) const SERVED: &str = "who waits is served once faults stop";
pub(crate) const EMPTY: &str = "the line is empty in the end";
pub(crate) const DEAD_ONES: &str = "a dead waiter delays the line by one claim window";
pub(crate) const LEFT: &str = "who has left delays nobody once that is known";

/// What is wrong with the protocol: the negative controls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bug {
    None,
    /// The lease of a call counts from when it was read.
    LeaseFromReceipt,
    /// It counts as a full one, without a claim.
    ShortLeaseIsFull,
    /// A join whose outcome is unknown is sent again, with the same owner.
    JoinAgain,
    /// A rotate whose outcome is unknown is sent again; the first may still land.
    RotateAgain,
    /// A call whose owner no ticket has is answered with a release, also of a tenure that is alive.
    LateCallReleases,
    /// A late claim takes the lock anew, and goes on with the fencing tokens of the call.
    RangeOfLateCall,
    /// A hold whose lease is lost is passed on.
    PassLost,
    /// The counter is raised by one only, and the tenure counts on.
    Unreserved,
    /// A hold gives its unused fencing tokens back, and is passed on.
    GiveBackOnPass,
    /// A hand-over gives a full lease.
    NoWindow,
    /// Nobody looks whether the one who was called has come.
    NoWatch,
    /// A leave takes the entry out, but lets the lock stand that was handed over meanwhile.
    LeaveKeepsLock,
    /// A leave releases only.
    LeaveStaysInLine,
    /// Nobody in line ever looks.
    NoFallback,
}

/// A variant of the protocol with `P` processes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line<const P: usize> {
    pub(crate) bug: Bug,
    /// What a lease lasts, and one that was handed over, in ticks of the server.
    pub(crate) expire: u8,
    pub(crate) window: u8,
    /// In each process.
    pub(crate) callers: u8,
    /// In all of them.
    pub(crate) owners: u8,
    /// How many processes die, and how many subscriptions break.
    pub(crate) crashes: u8,
    pub(crate) cuts: u8,
    /// How often a reply does not come in time, or the time of somebody in line is up.
    pub(crate) doubts: u8,
    /// The first process cannot be told (its channel is `-`).
    pub(crate) has_untold: bool,
    /// Also what must come about is asked, from every state.
    pub(crate) is_fair: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Tick,
    /// The key goes that is close to its end.
    Expire,
    /// Time is up.
    GiveUp(usize),
    /// A fresh owner joins.
    Ask(usize),
    Look(usize),
    /// A call is read; the lock may have to be claimed first.
    Hear {
        process: usize,
        owner: u8,
        claims: bool,
    },
    /// A command lands (`*.lua`).
    Land {
        process: usize,
        command: Command,
        heard: bool,
    },
    /// Its reply is read.
    Read(usize),
    /// No reply has come in time.
    Doubt(usize),
    /// A body ends, and the next one of the process begins.
    Pass(usize),
    /// A body ends.
    Rotate(usize),
    Release(usize),
    Renew(usize),
    Nudge(usize),
    Die(usize),
    /// The server learns that a process is dead.
    Notice(usize),
    /// A subscription breaks, and is made again.
    Cut(usize),
    Listen(usize),
}

impl<const P: usize> Line<P> {
    pub(crate) fn is_untold(&self, process: usize) -> bool {
        self.has_untold && process == 0
    }

    /// A command lands; its process hears of it, or not.
    fn arrive(&self, state: &mut State<P>, process: usize, command: Command, heard: bool) {
        let lands_again = self.bug == Bug::RotateAgain && matches!(command, Command::Rotate { .. });
        if !lands_again {
            state.processes[process].commands.remove(command);
        }
        let reply = self.land(state, process, command);
        if heard {
            state.processes[process].reply = Some(reply);
        }
    }

    fn poller_actions(&self, state: &State<P>, process: usize, actions: &mut Vec<Action>) {
        let (this, has_owners) = (&state.processes[process], state.owners > 0);
        if has_owners && self.may_ask(process, this) {
            actions.push(Action::Ask(process));
        }
        match this.phase {
            Phase::InLine { asked: None, .. } => actions.push(Action::Look(process)),
            Phase::Holding { left, renewing, .. } => {
                if self.may_pass(this) {
                    actions.push(Action::Pass(process));
                }
                if has_owners && this.waiting > 0 && left > 0 {
                    actions.push(Action::Rotate(process));
                }
                if left > 0 && left < self.expire - DRIFT && renewing.is_none() {
                    actions.push(Action::Renew(process));
                }
                actions.push(Action::Release(process));
            }
            _ => {}
        }
        if this.reply.is_some() {
            actions.push(Action::Read(process));
        }
    }

    fn doubt_actions(this: &Process, process: usize, actions: &mut Vec<Action>) {
        let waits_for_reply = match this.phase {
            Phase::InLine { asked, .. } => asked.is_some(),
            Phase::Holding { renewing, .. } => renewing.is_some(),
            Phase::Claiming { .. } | Phase::Rotating { .. } => true,
            Phase::Idle => false,
        };
        if waits_for_reply && this.reply.is_none() {
            actions.push(Action::Doubt(process));
        }
        if matches!(this.phase, Phase::InLine { .. }) {
            actions.push(Action::GiveUp(process));
        }
    }

    fn call_actions(&self, this: &Process, process: usize, actions: &mut Vec<Action>) {
        for Call { owner, .. } in this.calls.iter() {
            let since = Self::called_since(this, owner);
            let begins = since.is_none_or(|since| self.called_rest(since) > 0);
            if begins {
                actions.push(Action::Hear { process, owner, claims: false });
            }
            if since.is_some() {
                actions.push(Action::Hear { process, owner, claims: true });
            }
        }
    }

    fn fault_actions(state: &State<P>, process: usize, actions: &mut Vec<Action>) {
        let this = &state.processes[process];
        if this.is_dead {
            if this.listens {
                actions.push(Action::Notice(process));
            }
            return;
        }
        if state.crashes > 0 {
            actions.push(Action::Die(process));
        }
        if !this.listens {
            actions.push(Action::Listen(process));
        } else if state.cuts > 0 {
            actions.push(Action::Cut(process));
        }
    }
}

impl<const P: usize> Model for Line<P> {
    type State = State<P>;
    type Action = Action;

    fn init_states(&self) -> Vec<State<P>> {
        vec![State {
            lock: Lock { owner: None, left: 0, counter: 0, watcher: None },
            line: Few::EMPTY,
            processes: [Process::new(self.callers); P],
            crashes: self.crashes,
            cuts: self.cuts,
            owners: self.owners,
            doubts: self.doubts,
            history: History::default(),
        }]
    }

    fn actions(&self, state: &State<P>, actions: &mut Vec<Action>) {
        actions.push(Action::Tick);
        if state.lock.owner.is_some() && state.lock.left <= 2 * DRIFT {
            actions.push(Action::Expire);
        }
        for (process, this) in state.processes.iter().enumerate() {
            self.poller_actions(state, process, actions);
            if state.doubts > 0 {
                Self::doubt_actions(this, process, actions);
            }
            self.call_actions(this, process, actions);
            Self::fault_actions(state, process, actions);
            for command in this.commands.iter() {
                let awaits = this.awaits(command);
                if !awaits || state.doubts > 0 {
                    actions.push(Action::Land { process, command, heard: false });
                }
                if awaits {
                    actions.push(Action::Land { process, command, heard: true });
                }
            }
            let may_nudge = if self.is_fair { !this.is_dead } else { process == 0 };
            if may_nudge && state.lock.owner.is_none() && !state.line.is_empty() {
                actions.push(Action::Nudge(process));
            }
        }
    }

    fn next_state(&self, last: &State<P>, action: Action) -> Option<State<P>> {
        let mut next = *last;
        let state = &mut next;
        match action {
            Action::Tick => state.tick(self.expire - DRIFT, self.window - DRIFT),
            Action::Expire => (state.lock.owner, state.lock.left) = (None, 0),
            Action::GiveUp(process) => {
                state.doubts -= 1;
                Self::give_up(&mut state.processes[process]);
            }
            Action::Ask(process) => Self::ask(state, process),
            Action::Look(process) => Self::look(&mut state.processes[process]),
            Action::Hear { process, owner, claims } => {
                let call =
                    state.processes[process].calls.iter().find(|call| call.owner == owner)?;
                self.hear(state, process, call, claims);
            }
            Action::Land { process, command, heard } => {
                self.arrive(state, process, command, heard);
            }
            Action::Read(process) => self.read(state, process),
            Action::Doubt(process) => {
                state.doubts -= 1;
                self.doubt(&mut state.processes[process]);
            }
            Action::Pass(process) => self.pass(state, process),
            Action::Rotate(process) => Self::move_on(state, process),
            Action::Release(process) => Self::let_go(state, process),
            Action::Renew(process) => Self::extend(&mut state.processes[process]),
            Action::Nudge(process) => self.nudge(state, process),
            Action::Die(process) => {
                state.crashes -= 1;
                Self::die(&mut state.processes[process]);
            }
            Action::Notice(process) => state.processes[process].listens = false,
            Action::Cut(process) => {
                state.cuts -= 1;
                state.processes[process].listens = false;
                state.processes[process].calls = Few::EMPTY;
            }
            Action::Listen(process) => {
                state.processes[process].listens = true;
                state.processes[process].is_disturbed = self.is_fair;
            }
        }
        let next = next.without_echoes();
        let next = if self.has_untold { next } else { next.sorted() };
        (next != *last).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut all = vec![
            Property::always(ONE_HOLDER, |_, state: &State<P>| {
                state.processes.iter().filter(|process| process.relies()).count() <= 1
            }),
            Property::always(RISING, |_, state: &State<P>| !state.history.fence_not_above),
            Property::always(JOINS_ONCE, |_, state: &State<P>| !state.history.joined_twice),
        ];
        if self.is_fair {
            all.extend([
                Property::always(SERVED, |line: &Self, state| line.serves(state)),
                Property::always(EMPTY, |line: &Self, state| line.leaves_nothing(state)),
                Property::always(DEAD_ONES, |line: &Self, state| line.skips_the_dead(state)),
                Property::always(LEFT, |line: &Self, state| line.skips_who_left(state)),
            ]);
        }
        all
    }
}

impl<const P: usize> Proof for Line<P> {
    const NAME: &'static str = "line";

    fn bound(&self) -> String {
        let Self { callers, owners, crashes, cuts, doubts, .. } = self;
        let (window, expire) = (self.window, self.expire);
        let faults = format!("{crashes} crashes, {cuts} cuts, {doubts} doubts");
        let history = format!("{P} processes with {callers} callers, {owners} owners");
        format!("{history}; {faults}; {window} of {expire} ticks")
    }

    fn goals(&self) -> Vec<Goal<State<P>>> {
        let mut all: Vec<Goal<State<P>>> =
            vec![("a body goes on without a lease while somebody else holds", goals::lost)];
        if self.owners > 2 {
            all.push(("a call comes late, and somebody else has the lock", goals::late));
        }
        if self.callers > 1 && self.owners > 2 {
            all.push(("a tenure moves on, and comes back to its process", goals::back));
        }
        if self.crashes > 0 {
            all.push((
                "a dead process has the lock, and another one waits in line",
                goals::behind_dead,
            ));
        }
        if self.cuts > 0 {
            all.push(("a process that does not listen is handed the lock", goals::unheard));
        }
        if self.doubts > 0 {
            all.push((
                "replies that did not come, or waits that ended, and a later hold",
                goals::doubted,
            ));
        }
        if self.has_untold {
            all.push(("one that cannot be told waits for a lock that is free", goals::untold));
        }
        all
    }
}
