//! Builds the tests of the tree with all mutants in it, and leaves out those that do not compile.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::graft::{Grafted, graft};
use crate::list::Mutant;
use crate::{chooser, tree};

/// What is built: one of cargo's test targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// The unit tests of the runtime.
    Lib,
    /// The tests on real servers.
    It,
}

impl Target {
    /// Where its tests run, in the project at `root`.
    pub fn home(self, root: &Path) -> PathBuf {
        match self {
            Self::Lib => root.join("redlock-runtime"),
            Self::It => root.to_owned(),
        }
    }

    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Lib => &["-p", "redlock-runtime", "--lib", "--all-features"],
            Self::It => &["-p", "redlock-workspace", "--test", "it"],
        }
    }
}

#[derive(Debug, Deserialize)]
struct Said {
    message: Option<Message>,
    executable: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
struct Message {
    level: String,
    rendered: Option<String>,
    spans: Vec<Span>,
}

#[derive(Debug, Deserialize)]
struct Span {
    file_name: String,
    byte_start: usize,
    byte_end: usize,
    is_primary: bool,
}

/// The sources of the tree at `root`, and the mutants that live in them.
#[derive(Debug)]
pub struct Tree<'a> {
    root: PathBuf,
    build: PathBuf,
    mutants: &'a [Mutant],
    sources: BTreeMap<String, String>,
    /// By their numbers.
    alive: BTreeSet<usize>,
}

impl<'a> Tree<'a> {
    pub fn new(root: &Path, build: &Path, mutants: &'a [Mutant]) -> Self {
        let read = |file: &String| fs::read_to_string(root.join(file)).expect("it was listed");
        let sources =
            mutants.iter().map(|mutant| (mutant.file.clone(), read(&mutant.file))).collect();
        let alive = (0..mutants.len()).collect();
        Self { root: root.to_owned(), build: build.to_owned(), mutants, sources, alive }
    }

    /// The program with the tests of `target`.
    pub fn build(&mut self, target: Target) -> PathBuf {
        loop {
            let grafted = self.write();
            let (program, errors) = self.cargo(target);
            if let Some(program) = program {
                return program;
            }
            let before = self.alive.len();
            for error in &errors {
                for culprit in culprits(&grafted, error) {
                    self.alive.remove(&culprit);
                }
            }
            let first = errors.first().and_then(|error| error.rendered.as_deref());
            assert!(
                self.alive.len() < before,
                "{}",
                first.unwrap_or("cargo failed without errors")
            );
            eprintln!(
                "{target:?}: {} of {} mutants compile so far",
                self.alive.len(),
                self.mutants.len()
            );
        }
    }

    /// The numbers of the mutants that compile.
    pub fn alive(&self) -> &BTreeSet<usize> {
        &self.alive
    }

    fn write(&mut self) -> BTreeMap<String, Grafted> {
        let mut all = BTreeMap::new();
        let mut living = BTreeSet::new();
        for (file, source) in &self.sources {
            let mutants = self.alive.iter().map(|number| (*number, &self.mutants[*number]));
            let mutants = mutants.filter(|(_, mutant)| mutant.file == *file).collect();
            let grafted = graft(source, &mutants);
            tree::write(&self.root.join(file), grafted.text.as_bytes());
            living.extend(&grafted.alive);
            all.insert(file.clone(), grafted);
        }
        self.alive = living;
        let lib = self.root.join("redlock-runtime/src/lib.rs");
        let text = fs::read_to_string(&lib).expect("the runtime has a root");
        let text = text.split(chooser::MARK).next().unwrap_or_default();
        let text = format!("{text}{}{}", chooser::MARK, chooser::source(self.mutants.len()));
        tree::write(&lib, text.as_bytes());
        all
    }

    fn cargo(&self, target: Target) -> (Option<PathBuf>, Vec<Message>) {
        let output = Command::new("cargo")
            .current_dir(&self.root)
            .args(["test", "--no-run", "--message-format", "json"])
            .args(target.arguments())
            .env("CARGO_TARGET_DIR", &self.build)
            .env("RUSTFLAGS", "--cap-lints allow -C debuginfo=0")
            .output()
            .expect("cargo runs");
        let lines = String::from_utf8_lossy(&output.stdout);
        let said: Vec<Said> =
            lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let program = said.iter().rev().find_map(|said| said.executable.clone());
        let errors = said.into_iter().filter_map(|said| said.message);
        let errors = errors.filter(|message| message.level == "error").collect();
        (program.filter(|_| output.status.success()), errors)
    }
}

/// What `error` points at, first of all.
fn culprits(grafted: &BTreeMap<String, Grafted>, error: &Message) -> Vec<usize> {
    for is_primary in [true, false] {
        for span in error.spans.iter().filter(|span| span.is_primary == is_primary) {
            let place: Range<usize> = span.byte_start..span.byte_end;
            let file = grafted.iter().find(|(file, _)| span.file_name.ends_with(file.as_str()));
            let found = file.map_or(Vec::new(), |(_, grafted)| grafted.culprits(&place));
            if !found.is_empty() {
                return found;
            }
        }
    }
    Vec::new()
}
