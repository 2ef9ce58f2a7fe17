//! The plot of an act: when to cause the accident, and what there is to tell about it. Pure: it is
//! told what happens and when, and answers what to do.

use crate::act::Act;
use crate::event::{Event, Micros};

/// What the orchestrator does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cue {
    None,
    Kill(usize),
    Freeze(usize),
    Thaw(usize),
}

/// Something worth telling, and when it happened, counted from the begin of the act.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) at: Micros,
    pub(crate) text: String,
}

impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:>7}  {}", seconds(self.at), self.text)
    }
}

/// What became of the unlucky worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Running,
    Killed,
    Frozen,
}

/// What has happened in an act so far.
#[derive(Debug)]
pub(crate) struct Plot {
    act: Act,
    began: Micros,
    /// The unlucky worker and its fencing token.
    victim: Option<(usize, u64)>,
    /// When the accident happened, or the victim lost its lock.
    since: Option<Micros>,
    fate: Fate,
    /// Another holder came after the victim.
    is_taken_over: bool,
    /// The accident ended as it should for the act.
    is_resolved: bool,
    sold_meanwhile: u32,
    /// How many units others sell while the victim is frozen.
    thaw_after: u32,
    is_done: Vec<bool>,
    lines: Vec<Line>,
    told: usize,
}

impl Plot {
    pub(crate) fn new(act: Act, procs: usize, stock: u32) -> Self {
        Self {
            act,
            began: 0,
            victim: None,
            since: None,
            fate: Fate::Running,
            is_taken_over: false,
            is_resolved: false,
            sold_meanwhile: 0,
            thaw_after: (stock / 10).clamp(1, 25),
            is_done: vec![false; procs],
            lines: Vec::new(),
            told: 0,
        }
    }

    pub(crate) fn procs(&self) -> usize {
        self.is_done.len()
    }

    pub(crate) fn begin(&mut self, now: Micros) {
        self.began = now;
    }

    pub(crate) fn is_over(&self, proc: usize) -> bool {
        self.is_done[proc]
    }

    pub(crate) fn is_killed(&self, proc: usize) -> bool {
        self.fate == Fate::Killed && self.victim.is_some_and(|(victim, _)| victim == proc)
    }

    /// Takes an event in.
    pub(crate) fn hear(&mut self, proc: usize, event: &Event) -> Cue {
        match event {
            Event::Done => {
                self.is_done[proc] = true;
                self.thaw_if_alone()
            }
            Event::Incident { at, fence, .. } => self.accident(proc, *at, *fence),
            Event::Served { at, held, fence, seen, .. } => {
                self.served(proc, at.saturating_sub(*held), *fence, *seen)
            }
            Event::Renewed { at, count } => {
                if self.act == Act::Hung {
                    self.tell(*at, format!("renewal {count} of 2"));
                }
                Cue::None
            }
            Event::Lost { at, held, renewals, reason } => {
                if self.act == Act::Hung && self.victim.is_some_and(|(victim, _)| victim == proc) {
                    self.since = Some(*at);
                    self.is_resolved = *renewals == 2;
                    let held = seconds(*held);
                    self.tell(*at, format!("p{proc} was stopped after {held}: {reason}"));
                }
                Cue::None
            }
            Event::Stale { at, seen, .. } => {
                self.is_resolved = true;
                let stock = seen - 1;
                self.tell(*at, format!("p{proc} wrote \"{stock} left\", which was long untrue"));
                Cue::None
            }
            Event::Fenced { at, fence } => {
                self.is_resolved = true;
                let token = short(*fence);
                self.tell(*at, format!("the database refused the late write of token {token}"));
                Cue::None
            }
            Event::Ready | Event::Failed { .. } | Event::Gone => Cue::None,
        }
    }

    fn accident(&mut self, proc: usize, at: Micros, fence: u64) -> Cue {
        self.victim = Some((proc, fence));
        self.since = Some(at);
        match self.act {
            Act::Killed => Cue::Kill(proc),
            Act::Zombie | Act::FencedZombie => Cue::Freeze(proc),
            Act::Hung => {
                let token = short(fence);
                self.tell(at, format!("p{proc} hangs while it holds stock-7 (token {token})"));
                Cue::None
            }
            Act::Unlocked | Act::Locked => Cue::None,
        }
    }

    /// Somebody entered at `entered`, with a token of its own.
    fn served(&mut self, proc: usize, entered: Micros, fence: u64, seen: i64) -> Cue {
        let Some((victim, old)) = self.victim.filter(|(_, old)| fence > *old) else {
            return Cue::None;
        };
        if !self.is_taken_over {
            self.is_taken_over = true;
            let waited = seconds(entered.saturating_sub(self.since.unwrap_or(entered)));
            let tokens = format!("token {} > {}", short(fence), short(old));
            self.tell(entered, format!("p{proc} took over after {waited} ({tokens})"));
        }
        self.sold_meanwhile += u32::from(seen > 0);
        if self.fate == Fate::Frozen && (self.sold_meanwhile >= self.thaw_after || seen == 0) {
            return Cue::Thaw(victim);
        }
        Cue::None
    }

    /// Nobody is left to sell while the victim is frozen.
    fn thaw_if_alone(&self) -> Cue {
        let Some((victim, _)) = self.victim else { return Cue::None };
        let is_alone = (0..self.procs()).all(|proc| proc == victim || self.is_done[proc]);
        if self.fate == Fate::Frozen && is_alone { Cue::Thaw(victim) } else { Cue::None }
    }

    pub(crate) fn killed(&mut self, proc: usize, is_process: bool, now: Micros) {
        if is_process {
            self.fate = Fate::Killed;
        }
        self.is_resolved = true;
        self.since = Some(now);
        let how =
            if is_process { "was killed (SIGKILL)" } else { "vanished (its future is leaked)" };
        let token = short(self.victim.map_or(0, |(_, fence)| fence));
        self.tell(now, format!("p{proc} {how} while it held stock-7 (token {token})"));
    }

    pub(crate) fn frozen(&mut self, proc: usize, is_process: bool, now: Micros) {
        self.fate = Fate::Frozen;
        let how = if is_process { "was frozen (SIGSTOP)" } else { "blocks its thread" };
        let token = short(self.victim.map_or(0, |(_, fence)| fence));
        self.tell(now, format!("p{proc} {how} between read and write (token {token})"));
    }

    pub(crate) fn thawed(&mut self, proc: usize, now: Micros) {
        self.fate = Fate::Running;
        let sold = self.sold_meanwhile;
        self.tell(now, format!("p{proc} wakes up; meanwhile {sold} units were sold"));
    }

    /// Lines that have not been told yet.
    pub(crate) fn lines(&mut self) -> Vec<Line> {
        let new = self.lines[self.told..].to_vec();
        self.told = self.lines.len();
        new
    }

    /// The whole story, and whether everything happened that the act is about.
    pub(crate) fn finish(self) -> (Vec<Line>, bool) {
        let is_complete = match self.act {
            Act::Unlocked | Act::Locked => true,
            _ => self.is_taken_over && self.is_resolved,
        };
        (self.lines, is_complete)
    }

    fn tell(&mut self, at: Micros, text: String) {
        self.lines.push(Line { at: at.saturating_sub(self.began), text });
    }
}

/// `1.004 s`
pub(crate) fn seconds(micros: Micros) -> String {
    let millis = micros / 1000;
    format!("{}.{:03} s", millis / 1000, millis % 1000)
}

/// The last digits of a token: enough to compare two by eye.
fn short(fence: u64) -> String {
    format!("..{:08}", fence % 100_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(proc: usize, fence: u64, seen: i64) -> (usize, Event) {
        (proc, Event::Served { task: 0, at: 9_000, waited: 1, held: 1_000, fence, seen })
    }

    fn incident(fence: u64) -> Event {
        Event::Incident { task: 0, at: 5_000, fence, seen: 20 }
    }

    fn texts(plot: &mut Plot) -> Vec<String> {
        plot.lines().into_iter().map(|line| line.to_string()).collect()
    }

    #[test]
    fn the_holder_is_killed_and_the_next_one_takes_over() {
        let mut plot = Plot::new(Act::Killed, 2, 30);
        assert_eq!(plot.hear(1, &incident(7)), Cue::Kill(1));
        plot.killed(1, true, 6_000);
        assert!(plot.is_killed(1) && !plot.is_killed(0));
        let (proc, event) = served(0, 8, 20);
        assert_eq!(plot.hear(proc, &event), Cue::None);
        assert!(texts(&mut plot)[1].contains("0.008 s  p0 took over after 0.002 s"));
        assert!(texts(&mut plot).is_empty(), "every line is told once");
        assert!(plot.finish().1);
    }

    #[test]
    fn a_frozen_holder_wakes_up_once_others_have_sold() {
        let mut plot = Plot::new(Act::FencedZombie, 2, 30);
        assert_eq!(plot.hear(0, &incident(7)), Cue::Freeze(0));
        plot.frozen(0, true, 6_000);
        let cues: Vec<Cue> = (8..11)
            .map(|fence| {
                let (proc, event) = served(1, fence, 20);
                plot.hear(proc, &event)
            })
            .collect();
        assert_eq!(cues, [Cue::None, Cue::None, Cue::Thaw(0)]);
        plot.thawed(0, 10_000);
        assert_eq!(plot.hear(0, &Event::Fenced { at: 11_000, fence: 7 }), Cue::None);
        assert!(plot.finish().1);
    }

    #[test]
    fn a_frozen_holder_wakes_up_when_nobody_else_is_left() {
        let mut plot = Plot::new(Act::Zombie, 2, 30);
        plot.hear(0, &incident(7));
        plot.frozen(0, true, 6_000);
        assert_eq!(plot.hear(1, &Event::Done), Cue::Thaw(0));
    }

    #[test]
    fn an_act_whose_accident_did_not_happen_is_not_complete() {
        assert!(!Plot::new(Act::Killed, 2, 30).finish().1);
        assert!(Plot::new(Act::Locked, 2, 30).finish().1);
    }
}
