//! Plays one act: starts the workers, causes the accident, tells what happens and how it ended.

use std::time::{Duration, Instant, SystemTime};

use rustix::process::Signal;
use serde::Serialize;

use crate::Result;
use crate::act::{Accident, Act};
use crate::database::{Database, Tally};
use crate::fleet::Fleet;
use crate::options::Options;
use crate::screen::Screen;
use crate::server::Server;
use crate::shop::SOLD_MEANWHILE;
use crate::worker::{Event, PRODUCT, SHELF, Setup};

/// An act that takes longer than this hangs.
const LONGEST_ACT: Duration = Duration::from_secs(180);

/// How an act ended.
#[derive(Default, Serialize)]
pub(crate) struct Outcome {
    pub(crate) act: u8,
    pub(crate) title: &'static str,
    /// The act ended as it must, or showed what it is there to show.
    pub(crate) passed: bool,
    /// By what the database says, not by what the workers say.
    pub(crate) exact: bool,
    pub(crate) oversold: i64,
    pub(crate) tally: Tally,
    /// The accident that the act is about happened, and ended as it should.
    pub(crate) resolved: bool,
    pub(crate) served: usize,
    pub(crate) refused: usize,
    pub(crate) wait_p50: Duration,
    pub(crate) wait_p99: Duration,
    /// Bodies that were stopped because their lease was over.
    pub(crate) stopped: u32,
    pub(crate) failures: Vec<String>,
    pub(crate) story: Vec<String>,
}

pub(crate) async fn play(
    act: &'static Act,
    options: &Options,
    server: &Server,
    screen: &mut Screen,
) -> Result<Outcome> {
    let stock = options.stock();
    let directory = tempfile::Builder::new().prefix("redlock-inventory-").tempdir()?;
    let path = directory.path().join("shop.db");
    let half = if act.moves.is_some() { stock / 2 } else { 0 };
    let database = Database::create(&path, &[(PRODUCT, stock - half), (SHELF, half)])?;
    screen.begin(act, options);
    let setup = |proc| Setup {
        act: act.title.to_owned(),
        proc,
        tasks: options.tasks,
        customers: options.share(),
        // After a third of the stock.
        accident_at: i64::from(stock * 2 / 3),
        database: path.clone(),
        is_process: server.url.is_some(),
    };
    // Every run and act has keys of its own: on a server of yours nothing is in the way.
    let run = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_micros();
    let prefix = format!("inventory-demo:{run:x}:");
    let procs = options.procs as usize;
    let mut fleet = Fleet::start((0..procs).map(setup), server.url.as_deref(), &prefix)?;
    let mut stage = Stage {
        act,
        screen,
        began: Instant::now(),
        victim: None,
        holders: 0,
        is_frozen: false,
        is_done: vec![false; procs],
        waits: Vec::new(),
        outcome: Outcome { act: act.number, title: act.title, ..Outcome::default() },
    };
    let ended = tokio::time::timeout(LONGEST_ACT, stage.perform(&mut fleet)).await;
    ended.map_err(|_| format!("act {} did not end within {LONGEST_ACT:?}", act.number))??;
    drop(fleet);
    let outcome = stage.end(stock, database.tally()?);
    screen.end(act, &outcome, options);
    Ok(outcome)
}

/// What has happened in an act so far.
struct Stage<'a> {
    act: &'static Act,
    screen: &'a Screen,
    began: Instant,
    /// The unlucky worker, its fencing token, and since when it does not work.
    victim: Option<(usize, u64, Instant)>,
    /// How often others had the lock since then.
    holders: i64,
    is_frozen: bool,
    is_done: Vec<bool>,
    waits: Vec<Duration>,
    outcome: Outcome,
}

impl Stage<'_> {
    async fn perform(&mut self, fleet: &mut Fleet) -> Result<()> {
        while self.is_done.contains(&false) {
            let (proc, event) = fleet.events.recv().await.ok_or("all workers are gone")?;
            self.hear(proc, event, fleet)?;
            if self.is_frozen && self.holders >= SOLD_MEANWHILE / 2 {
                self.is_frozen = false;
                let (victim, ..) = self.victim.ok_or("nobody is frozen")?;
                self.tell(&format!(
                    "p{victim} wakes up; meanwhile {} units were sold",
                    self.holders
                ));
                fleet.signal(victim, Signal::CONT)?;
            }
        }
        Ok(())
    }

    fn cause(&mut self, proc: usize, fence: u64, fleet: &Fleet) -> Result<()> {
        let did = match self.act.accident {
            Some(Accident::Kill) => {
                self.outcome.resolved = true;
                self.is_done[proc] = fleet.signal(proc, Signal::KILL)?;
                if self.is_done[proc] { "was killed (SIGKILL)" } else { "vanished" }
            }
            Some(Accident::Freeze) => {
                self.is_frozen = true;
                let is_process = fleet.signal(proc, Signal::STOP)?;
                if is_process { "was frozen (SIGSTOP)" } else { "blocks its thread" }
            }
            _ => "hangs",
        };
        self.victim = Some((proc, fence, Instant::now()));
        self.tell(&format!("p{proc} {did} while it held stock-{PRODUCT} (token {})", short(fence)));
        Ok(())
    }

    fn hear(&mut self, proc: usize, event: Event, fleet: &Fleet) -> Result<()> {
        match event {
            Event::Accident { fence } => self.cause(proc, fence, fleet)?,
            Event::Served { waited, fence, seen } => {
                self.screen.count();
                self.waits.push(waited);
                self.outcome.refused += usize::from(seen == 0);
                self.served(proc, fence);
            }
            Event::Lost { held, renewals, reason } => {
                self.outcome.stopped += 1;
                if let Some((victim, _, since)) = &mut self.victim
                    && self.act.accident == Some(Accident::Hang)
                    && *victim == proc
                {
                    *since = Instant::now();
                    self.outcome.resolved = true;
                    let after = format!("{held:.2?} and {renewals} renewals");
                    self.tell(&format!("p{proc} was stopped after {after}: {reason}"));
                }
            }
            Event::Late { fence, seen, is_refused } => {
                self.outcome.resolved = true;
                let wrote = format!("wrote \"{} left\", which was long untrue", seen - 1);
                let refused = "wrote too late, and the database refused it";
                let did = if is_refused { refused } else { &wrote };
                self.tell(&format!("p{proc} {did} (token {})", short(fence)));
            }
            Event::Failed { text } => self.outcome.failures.push(text),
            Event::Done => self.is_done[proc] = true,
            Event::Gone if self.is_done[proc] => {}
            Event::Gone => return Err(format!("worker p{proc} ended too early").into()),
        }
        Ok(())
    }

    fn served(&mut self, proc: usize, fence: u64) {
        let Some((_, old, since)) = self.victim.filter(|(_, old, _)| fence > *old) else { return };
        if self.holders == 0 {
            let (waited, new, old) = (since.elapsed(), short(fence), short(old));
            self.tell(&format!("p{proc} took over after {waited:.2?} (token {new} > {old})"));
        }
        self.holders += 1;
    }

    fn tell(&mut self, text: &str) {
        let line = format!("{:.3} s  {text}", self.began.elapsed().as_secs_f64());
        self.screen.note(&line);
        self.outcome.story.push(line);
    }

    fn end(mut self, stock: u32, tally: Tally) -> Outcome {
        self.waits.sort_unstable();
        let ranked = |percent| self.waits.get(self.waits.len() * percent / 100).copied();
        let wait = |percent| ranked(percent).unwrap_or_default();
        let (exact, oversold) = match self.act.moves {
            Some(_) => (tally.adrift(stock) == 0, 0),
            None => (tally.is_exact(stock), tally.oversold(stock)),
        };
        let happened = self.holders > 0 && self.outcome.resolved;
        let resolved = self.act.accident.is_none() || happened;
        Outcome {
            passed: !self.act.must_be_exact() || (exact && resolved),
            exact,
            oversold,
            tally,
            resolved,
            served: self.waits.len(),
            wait_p50: wait(50),
            wait_p99: wait(99),
            ..self.outcome
        }
    }
}

/// The last digits of a token: enough to compare two by eye.
fn short(fence: u64) -> String {
    format!("..{:08}", fence % 100_000_000)
}
