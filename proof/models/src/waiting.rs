//! Waiting inside of processes: who wakes whom. Callers come and go, ask by themselves, and are not
//! polled any more; a poller in each process asks for those who wait, stands in the server's queue,
//! and rests; holders pass the lock on in their process, let go, and lose it.
//!
//! There is no time in it: a timer may fire whenever it is set. What must come about is asked from
//! each state, by a run in which only those timers fire that the documentation names for what has
//! happened. So a wake-up that is missing is not hidden by a timer that would have come anyway.

use stateright::{Model, Property};

use crate::check::{Goal, Proof};
use crate::few::Few;

mod callers;
mod canonical;
mod fair;
mod poller;
mod server;
mod state;

use state::{Command, Gone, Phase, Poller, Process, Rest, Server, State};

pub(crate) const PROMPT: &str = "a free lock waits for no timer but those that are named";
pub(crate) const SERVED: &str = "who waits is served once faults stop, by named timers only";
pub(crate) const IN_TIME: &str = "who waits is served within the times that are named";
pub(crate) const NO_ENTRY: &str = "a process where no caller waits leaves the line";

/// No more commands of a process are on their way when a caller asks by itself.
const ON_THEIR_WAY: usize = 1;

/// What is wrong with the protocol: the negative controls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bug {
    None,
    /// A newcomer does not wake a poller that rests because the lock was taken here.
    NewcomerUnheard,
    /// It does not wake it while anything has the lock here, be it a question of a caller.
    AnythingTakenIsNews,
    /// Others wait for a question of a caller until it is answered.
    QuestionForEver,
    /// What is granted to a question stays, also when its caller does not read the answer.
    AnswerForEver,
    /// A grant is renewed until its caller takes it.
    GrantForEver,
    /// A holder whose lease is lost is no news.
    LossUnheard,
    /// The poller does not look whether a holder of its process still has the key.
    NeverBehindHolder,
    /// A caller that goes away is no news.
    LeaveUnheard,
    /// A holder passes the lock on to the last waiter of a process that is in line, which is no
    /// news.
    LastOneUnheard,
    /// A tenure that is left to the poller takes the place of one that was left before.
    ReturnOverReturn,
    /// The end of a question of a caller is no news.
    EndUnheard,
}

/// `P` processes with `C` callers each.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waiting<const P: usize, const C: usize> {
    pub(crate) bug: Bug,
    /// How many callers are not polled any more, how many keys go, and how many messages.
    pub(crate) stalls: u8,
    pub(crate) losses: u8,
    pub(crate) cuts: u8,
    /// The first process has no place in line: it asks at the pace of a poller.
    pub(crate) has_untold: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// A caller comes, and asks by itself.
    AskFirst(usize, usize),
    /// A caller comes, and waits.
    Enter(usize, usize),
    GiveUp(usize, usize),
    /// A caller is not polled any more; it is polled again.
    Stall(usize, usize),
    Resume(usize, usize),
    /// It reads the answer to its own question.
    ReadAnswer(usize, usize),
    TakeGrant(usize, usize),
    /// A holder lets go, for the next one here, or for the poller to look after others first.
    Pass(usize, usize),
    Return(usize, usize),
    LetGo(usize, usize),
    /// The timers that care for callers which are not polled.
    Outdate(usize, usize),
    Undo(usize, usize),
    TakeBack(usize, usize),
    Land(usize, Command),
    /// What the poller does.
    Step(usize),
    ReadReply(usize),
    Hear(usize),
    Wake(usize),
    /// A key is deleted; a lease is lost; a message is lost.
    Delete,
    LoseLease(usize),
    Cut(usize),
}

impl<const P: usize, const C: usize> Waiting<P, C> {
    pub(crate) fn is_untold(&self, process: usize) -> bool {
        self.has_untold && process == 0
    }

    /// What comes about by itself, without a timer, a fault, or a caller's will.
    fn own_steps(state: &State<P, C>, at: usize, actions: &mut Vec<Action>) {
        let this = &state.processes[at];
        actions.extend(this.landing().map(|command| Action::Land(at, command)));
        match this.poller {
            Poller::Awake { .. } => actions.push(Action::Step(at)),
            Poller::Resting(_) if this.told.is_some() => actions.push(Action::Hear(at)),
            Poller::Asked(_, Some(_)) => actions.push(Action::ReadReply(at)),
            _ => {}
        }
        for (number, caller) in this.callers.iter().enumerate() {
            match caller.phase {
                Phase::LettingGo { .. } => actions.push(Action::LetGo(at, number)),
                _ if caller.is_stalled => {}
                Phase::Asking { reply: Some(_), .. } => {
                    actions.push(Action::ReadAnswer(at, number));
                }
                Phase::Granted { .. } => actions.push(Action::TakeGrant(at, number)),
                _ => {}
            }
        }
    }

    fn caller_actions(
        &self,
        state: &State<P, C>,
        (at, number): (usize, usize),
        actions: &mut Vec<Action>,
    ) {
        let this = &state.processes[at];
        let caller = this.callers[number];
        match caller.phase {
            Phase::Away => {
                actions.push(Action::Enter(at, number));
                if self.may_ask_first(at, this) && this.commands.iter().count() <= ON_THEIR_WAY {
                    actions.push(Action::AskFirst(at, number));
                }
            }
            Phase::Holding { is_over, .. } => {
                actions.push(Action::Pass(at, number));
                if !is_over && !this.queue.is_empty() {
                    actions.push(Action::Return(at, number));
                }
            }
            Phase::Asking { .. } | Phase::Waiting | Phase::Granted { .. } => {
                actions.push(Action::GiveUp(at, number));
                if caller.is_stalled {
                    actions.push(Action::Resume(at, number));
                } else if state.stalls > 0 {
                    actions.push(Action::Stall(at, number));
                }
            }
            Phase::LettingGo { .. } => {}
        }
        self.caller_timers(caller, (at, number), actions);
    }

    /// The timers that care for a caller which is not polled.
    fn caller_timers(
        &self,
        caller: state::Caller,
        (at, number): (usize, usize),
        actions: &mut Vec<Action>,
    ) {
        if !caller.is_stalled {
            return;
        }
        match caller.phase {
            Phase::Asking { counts: true, .. } if self.bug != Bug::QuestionForEver => {
                actions.push(Action::Outdate(at, number));
            }
            Phase::Asking { counts: false, reply: None | Some(true), .. }
                if self.bug != Bug::AnswerForEver =>
            {
                actions.push(Action::Undo(at, number));
            }
            Phase::Granted { .. } if self.bug != Bug::GrantForEver => {
                actions.push(Action::TakeBack(at, number));
            }
            _ => {}
        }
    }

    fn faults(state: &State<P, C>, actions: &mut Vec<Action>) {
        if let Some(key) = state.server.key
            && state.losses > 0
        {
            actions.push(Action::Delete);
            if state.processes[key.at()].held() == Some(key.slot) {
                actions.push(Action::LoseLease(key.at()));
            }
        }
        for (at, process) in state.processes.iter().enumerate() {
            if process.told.is_some() && state.cuts > 0 {
                actions.push(Action::Cut(at));
            }
        }
    }

    fn take(&self, state: &mut State<P, C>, action: Action) {
        match action {
            Action::AskFirst(at, caller) => Self::ask_first(state, at, caller),
            Action::Enter(at, caller) => self.enter(state, at, caller, false),
            Action::GiveUp(at, caller) => self.give_up(state, at, caller),
            Action::Stall(at, caller) => {
                state.stalls -= 1;
                state.processes[at].callers[caller].is_stalled = true;
            }
            Action::Resume(at, caller) => state.processes[at].callers[caller].is_stalled = false,
            Action::ReadAnswer(at, caller) => self.read_answer(state, at, caller),
            Action::TakeGrant(at, caller) => Self::take_grant(&mut state.processes[at], caller),
            Action::Pass(at, caller) => self.finish(&mut state.processes[at], caller, true),
            Action::Return(at, caller) => self.finish(&mut state.processes[at], caller, false),
            Action::LetGo(at, caller) => Self::let_go(&mut state.processes[at], caller),
            Action::Outdate(at, caller) => Self::outdate(&mut state.processes[at], caller),
            Action::Undo(at, caller) => self.undo(&mut state.processes[at], caller),
            Action::TakeBack(at, caller) => self.take_back(&mut state.processes[at], caller),
            Action::Land(at, command) => self.land(state, at, command),
            Action::Step(at) => self.step(state, at),
            Action::ReadReply(at) => self.read_reply(state, at),
            Action::Hear(at) => Self::hear(&mut state.processes[at]),
            Action::Wake(at) => Self::wake(&mut state.processes[at]),
            Action::Delete => Self::lose_key(state),
            Action::LoseLease(at) => {
                if let Some(slot) = state.processes[at].held() {
                    self.lose_lease(state, at, slot);
                }
            }
            Action::Cut(at) => {
                state.cuts -= 1;
                state.processes[at].told = None;
            }
        }
    }
}

impl<const P: usize, const C: usize> Model for Waiting<P, C> {
    type State = State<P, C>;
    type Action = Action;

    fn init_states(&self) -> Vec<State<P, C>> {
        vec![State {
            server: Server { key: None, gone: Gone::Released(0), line: Few::EMPTY },
            processes: [Process::NEW; P],
            stalls: self.stalls,
            losses: self.losses,
            cuts: self.cuts,
        }]
    }

    fn actions(&self, state: &State<P, C>, actions: &mut Vec<Action>) {
        for at in 0..P {
            Self::own_steps(state, at, actions);
            for caller in 0..C {
                self.caller_actions(state, (at, caller), actions);
            }
            if matches!(state.processes[at].poller, Poller::Resting(_)) {
                actions.push(Action::Wake(at));
            }
        }
        Self::faults(state, actions);
    }

    fn next_state(&self, last: &State<P, C>, action: Action) -> Option<State<P, C>> {
        let mut next = *last;
        self.take(&mut next, action);
        let next = next.canonical(self.has_untold);
        (next != *last).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(PROMPT, |waiting: &Self, state| waiting.is_prompt(state)),
            Property::always(SERVED, |waiting: &Self, state| waiting.serves(state)),
            Property::always(IN_TIME, |waiting: &Self, state| waiting.serves_in_time(state)),
            Property::always(NO_ENTRY, |_, state: &State<P, C>| {
                state.processes.iter().all(|process| !is_left_in_line(process))
            }),
        ]
    }
}

/// The server may hand the lock to this process, where no caller wants it.
fn is_left_in_line<const C: usize>(process: &Process<C>) -> bool {
    let rests = matches!(process.poller, Poller::Resting(_));
    rests && process.queue.is_empty() && process.entry.is_some() && process.told.is_none()
}

impl<const P: usize, const C: usize> Proof for Waiting<P, C> {
    const NAME: &'static str = "waiting";

    fn bound(&self) -> String {
        let Self { stalls, losses, cuts, .. } = self;
        format!("{P} processes with {C} callers; {stalls} stalls, {losses} lost keys, {cuts} cuts")
    }

    fn goals(&self) -> Vec<Goal<State<P, C>>> {
        let mut all: Vec<Goal<State<P, C>>> = Vec::new();
        if C > 1 {
            all.push(("a poller rests for a holder, and the lock is free", let_go as _));
        }
        if self.stalls > 0 {
            all.push(("the answer to a caller that is not polled is a grant", unread as _));
            all.push(("a caller that is not polled is granted the lock", untaken as _));
        }
        if self.losses > 0 {
            all.push(("a holder goes on, and another one has the lock", lost as _));
        }
        if P > 1 && self.losses > 0 && !self.has_untold {
            all.push(("all processes wait in line, and the lock is free", in_line as _));
        }
        if self.cuts > 0 {
            all.push(("a lock is handed over with a message that is lost", unheard as _));
        }
        if self.has_untold {
            all.push((
                "one that cannot be told rests by the clock, and the lock is free",
                by_clock,
            ));
        }
        all
    }
}

fn let_go<const P: usize, const C: usize>(state: &State<P, C>) -> bool {
    let rests =
        |process: &Process<C>| matches!(process.poller, Poller::Resting(Rest::TakenHere(_)));
    state.server.key.is_none() && state.processes.iter().any(rests)
}

fn unread<const P: usize, const C: usize>(state: &State<P, C>) -> bool {
    let mut callers = state.processes.iter().flat_map(|process| process.callers.iter());
    callers.any(|caller| {
        caller.is_stalled && matches!(caller.phase, Phase::Asking { reply: Some(true), .. })
    })
}

fn untaken<const P: usize, const C: usize>(state: &State<P, C>) -> bool {
    let mut callers = state.processes.iter().flat_map(|process| process.callers.iter());
    callers.any(|caller| caller.is_stalled && matches!(caller.phase, Phase::Granted { .. }))
}

fn lost<const P: usize, const C: usize>(state: &State<P, C>) -> bool {
    let holds = |process: &Process<C>| {
        process
            .callers
            .iter()
            .filter(|caller| matches!(caller.phase, Phase::Holding { .. }))
            .count()
    };
    state.processes.iter().map(holds).sum::<usize>() > 1
}

fn in_line<const P: usize, const C: usize>(state: &State<P, C>) -> bool {
    let waits = |process: &Process<C>| process.poller == Poller::Resting(Rest::InQueue);
    state.server.key.is_none() && state.processes.iter().all(waits)
}

/// Its message was the one that was lost: nothing else tells of a hand-over.
fn unheard<const P: usize, const C: usize>(state: &State<P, C>) -> bool {
    let is_handed = |(at, process): (usize, &Process<C>)| {
        let has = state
            .server
            .key
            .is_some_and(|owner| owner.at() == at && process.entry == Some(owner.slot));
        has && process.told.is_none() && process.poller == Poller::Resting(Rest::InQueue)
    };
    state.cuts == 0 && state.processes.iter().enumerate().any(is_handed)
}

fn by_clock<const P: usize, const C: usize>(state: &State<P, C>) -> bool {
    let rests = |process: &Process<C>| process.poller == Poller::Resting(Rest::Pause);
    state.server.key.is_none() && state.processes.first().is_some_and(rests)
}
