//! The resources that the locks protect, kept by the parent: it outlives every fault.
//!
//! Two are counters. The fenced one is claimed before it is read and written under the exact claim;
//! the unfenced one is read and set as a program does that trusts its lock. The third is a version
//! of two parts, which writers write one after the other, and readers read twice.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;

use crate::inspector::Inspector;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Claim,
    Write {
        value: u64,
    },
    /// A reader's: what is there, twice.
    Look,
}

/// What the fenced resource was asked, and whether it accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Access {
    pub key: String,
    pub fencing: u64,
    pub verb: Verb,
    pub accepted: bool,
}

#[derive(Debug, Default)]
struct Cell {
    claim: u64,
    /// The highest token of a look.
    seen: u64,
    /// What writers write in two steps, at their beginning and at their end, and nobody fences:
    /// their tokens.
    parts: [u64; 2],
    value: u64,
    /// The counter that nobody fences.
    plain: u64,
    sets: u64,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    cells: BTreeMap<String, Cell>,
    /// Accepted writes of each worker.
    applied: HashMap<String, u64>,
    accesses: Vec<Access>,
}

/// The figures of one history.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Totals {
    /// Writes that the fenced resource accepted, and the sum of its counters: they must agree.
    pub writes: u64,
    pub value: u64,
    /// Claims and writes that it refused.
    pub refused: u64,
    /// What was set without a fence, and how much of it the counters have lost.
    pub sets: u64,
    pub lost: u64,
}

#[derive(Debug)]
pub(crate) struct Store {
    state: Arc<Mutex<State>>,
    server: JoinHandle<()>,
}

impl Store {
    /// `inspector`: whom workers ask for what stands on the servers.
    pub(crate) fn start(socket: &Path, inspector: Inspector) -> Store {
        let listener = UnixListener::bind(socket).expect("the socket is free");
        let state = Arc::new(Mutex::new(State::default()));
        let (shared, inspector) = (Arc::clone(&state), Arc::new(inspector));
        let server = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&shared), Arc::clone(&inspector)));
            }
        });
        Store { state, server }
    }

    pub(crate) fn accesses(&self) -> Vec<Access> {
        lock(&self.state).accesses.clone()
    }

    pub(crate) fn totals(&self) -> Totals {
        let state = lock(&self.state);
        let sum = |of: fn(&Cell) -> u64| state.cells.values().map(of).sum::<u64>();
        let refused = state.accesses.iter().filter(|access| !access.accepted).count();
        Totals {
            writes: state.applied.values().sum(),
            value: sum(|cell| cell.value),
            refused: u64::try_from(refused).unwrap_or(u64::MAX),
            sets: sum(|cell| cell.sets),
            lost: sum(|cell| cell.sets - cell.plain),
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// Answers until the other side is gone; what it asked before it was killed is carried out.
async fn serve(stream: UnixStream, state: Arc<Mutex<State>>, inspector: Arc<Inspector>) {
    let (from, mut to) = stream.into_split();
    let mut lines = BufReader::new(from).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let answer = match line.strip_prefix("held ").and_then(|rest| rest.split_once(' ')) {
            Some((process, name)) => format!("{}\n", inspector.held(process, name).await),
            None => lock(&state).answer(&line),
        };
        if to.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

impl State {
    fn answer(&mut self, line: &str) -> String {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |n: usize| words[n].parse::<u64>().expect("a number");
        match words[0] {
            "claim" => self.claim(words[1], number(2), words[3]),
            "look" => self.look(words[1], number(2)),
            "part" => {
                self.cell(words[1]).parts[usize::from(words[2] == "end")] = number(3);
                "ok\n".to_owned()
            }
            "write" => self.write(words[1], number(2), words[3], number(4)),
            "read" => format!("{}\n", self.cell(words[1]).plain),
            "set" => {
                let cell = self.cell(words[1]);
                cell.plain = number(2);
                cell.sets += 1;
                "ok\n".to_owned()
            }
            _ => unreachable!("the resource knows no {line:?}"),
        }
    }

    /// The value, and how many writes of this worker have been accepted.
    fn claim(&mut self, key: &str, fencing: u64, worker: &str) -> String {
        let applied = self.applied.get(worker).copied().unwrap_or(0);
        let cell = self.cell(key);
        let accepted = fencing > cell.claim && fencing > cell.seen;
        if accepted {
            cell.claim = fencing;
        }
        let value = cell.value;
        self.record(key, fencing, Verb::Claim, accepted);
        if accepted { format!("ok {value} {applied}\n") } else { "fenced\n".to_owned() }
    }

    /// The parts, and whether no writer with a higher token has been here.
    fn look(&mut self, key: &str, fencing: u64) -> String {
        let cell = self.cell(key);
        let accepted = fencing > cell.claim;
        if accepted {
            cell.seen = cell.seen.max(fencing);
        }
        let ([begun, ended], claim) = (cell.parts, cell.claim);
        self.record(key, fencing, Verb::Look, accepted);
        format!("{begun} {ended} {claim}\n")
    }

    fn write(&mut self, key: &str, fencing: u64, worker: &str, value: u64) -> String {
        let cell = self.cell(key);
        let accepted = fencing == cell.claim && fencing > cell.seen;
        if accepted {
            cell.value = value;
            *self.applied.entry(worker.to_owned()).or_default() += 1;
        }
        self.record(key, fencing, Verb::Write { value }, accepted);
        if accepted { "ok\n".to_owned() } else { "fenced\n".to_owned() }
    }

    fn record(&mut self, key: &str, fencing: u64, verb: Verb, accepted: bool) {
        self.accesses.push(Access { key: key.to_owned(), fencing, verb, accepted });
    }

    fn cell(&mut self, key: &str) -> &mut Cell {
        self.cells.entry(key.to_owned()).or_default()
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
