//! Plays one act: starts the workers, causes the accident, collects what is said.

use std::io;
use std::path::Path;
use std::time::Duration;

use crate::act::Act;
use crate::database::{Database, Tally};
use crate::event::{self, Event, Micros};
use crate::fleet::{Access, Fleet, Message};
use crate::options::Options;
use crate::outcome::Outcome;
use crate::plot::{Cue, Plot};
use crate::screen::Screen;
use crate::worker::{PRODUCT, Setup};

/// An act that takes longer than this hangs.
const LONGEST_ACT: Duration = Duration::from_secs(180);

/// Plays `act` and says how it ended.
pub(crate) async fn play(
    act: Act,
    options: &Options,
    access: Option<&Access>,
    screen: &mut Screen,
) -> Result<Outcome, PlayError> {
    let path = options.report.with_extension(format!("{}.db", act.name()));
    Database::create(&path, PRODUCT, options.stock())?;
    screen.begin(act, options);
    let mut fleet = Fleet::start(setups(act, options, &path), access)?;
    let mut stage = Stage {
        plot: Plot::new(act, options.procs(), options.stock()),
        messages: Vec::new(),
        began: event::now(),
    };
    let ended = tokio::time::timeout(LONGEST_ACT, stage.perform(&mut fleet, screen)).await;
    ended.map_err(|_| PlayError::Hangs(act))??;
    drop(fleet);
    let seconds = event::now().saturating_sub(stage.began);
    let tally = Database::open(&path)?.tally(PRODUCT)?;
    let outcome = stage.outcome(act, options.stock(), tally, seconds);
    screen.end(&outcome);
    Ok(outcome)
}

fn setups(act: Act, options: &Options, database: &Path) -> Vec<Setup> {
    let setup = |proc| Setup {
        act,
        proc,
        tasks: options.tasks(),
        customers: options.share(proc),
        mishap: act.mishap(),
        // After a third of the stock.
        mishap_at: i64::from(options.stock() * 2 / 3),
        database: database.to_path_buf(),
    };
    (0..options.procs()).map(setup).collect()
}

struct Stage {
    plot: Plot,
    messages: Vec<Message>,
    /// When the customers were let in.
    began: Micros,
}

impl Stage {
    async fn perform(&mut self, fleet: &mut Fleet, screen: &mut Screen) -> Result<(), PlayError> {
        let mut waiting = self.plot.procs();
        let mut running = self.plot.procs();
        while running > 0 {
            let Some((proc, event)) = fleet.next().await else { break };
            match &event {
                Event::Ready => {
                    waiting -= 1;
                    if waiting == 0 {
                        self.began = event::now();
                        self.plot.begin(self.began);
                        fleet.open().await?;
                    }
                }
                Event::Done => running -= 1,
                Event::Gone if self.plot.is_over(proc) => {}
                Event::Gone if self.plot.is_killed(proc) => running -= 1,
                Event::Gone => return Err(PlayError::Died(proc)),
                _ => screen.count(proc, &event),
            }
            let cue = self.plot.hear(proc, &event);
            self.messages.push((proc, event));
            self.act_on(cue, fleet).await?;
            for line in self.plot.lines() {
                screen.note(&line.to_string());
            }
        }
        Ok(())
    }

    async fn act_on(&mut self, cue: Cue, fleet: &mut Fleet) -> io::Result<()> {
        match cue {
            Cue::None => {}
            Cue::Kill(proc) => {
                let is_process = fleet.kill(proc)?;
                self.plot.killed(proc, is_process, event::now());
            }
            Cue::Freeze(proc) => {
                let is_process = fleet.freeze(proc)?;
                self.plot.frozen(proc, is_process, event::now());
            }
            Cue::Thaw(proc) => {
                self.plot.thawed(proc, event::now());
                fleet.thaw(proc).await?;
            }
        }
        Ok(())
    }

    fn outcome(self, act: Act, stock: u32, tally: Tally, micros: Micros) -> Outcome {
        let (story, is_complete) = self.plot.finish();
        Outcome {
            act,
            stock,
            tally,
            began: self.began,
            took: Duration::from_micros(micros),
            messages: self.messages,
            story,
            is_complete,
        }
    }
}

/// Why an act could not be played to its end.
#[derive(Debug)]
pub(crate) enum PlayError {
    Database(rusqlite::Error),
    Io(io::Error),
    Died(usize),
    Hangs(Act),
}

impl std::fmt::Display for PlayError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Database(error) => write!(f, "the database failed: {error}"),
            Self::Io(error) => write!(f, "the workers could not be started or reached: {error}"),
            Self::Died(proc) => write!(f, "worker p{proc} ended before its work was done"),
            Self::Hangs(act) => {
                write!(f, "act {} did not end within {LONGEST_ACT:?}", act.number())
            }
        }
    }
}

impl std::error::Error for PlayError {}

impl From<rusqlite::Error> for PlayError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error)
    }
}

impl From<io::Error> for PlayError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
