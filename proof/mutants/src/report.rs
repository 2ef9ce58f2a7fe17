//! What became of each mutant, and the sums by file.

use std::collections::{BTreeMap, BTreeSet};

use crate::list::Mutant;
use crate::trial::Verdict;

#[derive(Debug)]
pub struct Report<'a> {
    mutants: &'a [Mutant],
    viable: BTreeSet<usize>,
    verdicts: BTreeMap<usize, Verdict>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Sums {
    mutants: usize,
    unviable: usize,
    caught: usize,
    hung: usize,
    missed: usize,
}

impl<'a> Report<'a> {
    pub fn new(mutants: &'a [Mutant]) -> Self {
        let viable = (0..mutants.len()).collect();
        Self { mutants, viable, verdicts: BTreeMap::new() }
    }

    /// Only those in `viable` compile.
    pub fn compile(&mut self, viable: &BTreeSet<usize>) {
        self.viable.clone_from(viable);
    }

    /// The mutants that compile, and that no test has noticed yet.
    pub fn missed(&self) -> Vec<usize> {
        let is_missed = |mutant: &usize| self.verdicts.get(mutant).is_none_or(Verdict::is_missed);
        self.viable.iter().copied().filter(is_missed).collect()
    }

    /// Says at once what became of `mutant`.
    pub fn tell(&self, mutant: usize, verdict: &Verdict) {
        println!("{}: {}", self.mutants[mutant].name, describe(verdict));
    }

    /// The later verdict stands, unless its tests did not reach what others did.
    pub fn add(&mut self, verdicts: BTreeMap<usize, Verdict>) {
        for (mutant, verdict) in verdicts {
            if verdict != Verdict::Unreached || !self.verdicts.contains_key(&mutant) {
                self.verdicts.insert(mutant, verdict);
            }
        }
    }

    pub fn print(&self) {
        println!("\n| file | mutants | unviable | caught | hung | missed |");
        println!("| --- | --- | --- | --- | --- | --- |");
        let mut all = Sums::default();
        for (file, sums) in self.by_file() {
            println!("{}", sums.row(&file));
            all.add(sums);
        }
        println!("{}", all.row("all"));
        println!("\nmissed:");
        for (mutant, verdict) in &self.verdicts {
            if verdict.is_missed() {
                self.tell(*mutant, verdict);
            }
        }
    }

    fn by_file(&self) -> BTreeMap<String, Sums> {
        let mut files: BTreeMap<String, Sums> = BTreeMap::new();
        for (number, mutant) in self.mutants.iter().enumerate() {
            let file = mutant.file.trim_start_matches("redlock-runtime/src/").to_owned();
            let sums = files.entry(file).or_default();
            sums.mutants += 1;
            match self.verdicts.get(&number) {
                _ if !self.viable.contains(&number) => sums.unviable += 1,
                Some(Verdict::Caught(_)) => sums.caught += 1,
                Some(Verdict::Hung(_)) => sums.hung += 1,
                Some(Verdict::Missed { .. } | Verdict::Unreached) | None => sums.missed += 1,
            }
        }
        files
    }
}

impl Sums {
    fn add(&mut self, other: Self) {
        self.mutants += other.mutants;
        self.unviable += other.unviable;
        self.caught += other.caught;
        self.hung += other.hung;
        self.missed += other.missed;
    }

    fn row(self, name: &str) -> String {
        let Self { mutants, unviable, caught, hung, missed } = self;
        format!("| `{name}` | {mutants} | {unviable} | {caught} | {hung} | {missed} |")
    }
}

const MISSED: &str = "MISSED";

/// Does `earlier`, what this program printed before, call the mutant of this name missed?
pub fn is_missed_in(earlier: &str, name: &str) -> bool {
    let said = |line: &str| {
        line.strip_prefix(name)?.strip_prefix(": ").map(|said| said.starts_with(MISSED))
    };
    // The last word counts: another kind of tests may have noticed it.
    earlier.lines().filter_map(said).next_back().unwrap_or(false)
}

fn describe(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Caught(test) => format!("caught by {test}"),
        Verdict::Hung(test) => format!("hung in {test}"),
        Verdict::Missed { tried, left_out: 0 } => format!("{MISSED} by {tried} tests"),
        Verdict::Missed { tried, left_out } => {
            format!("{MISSED} by {tried} tests, {left_out} more were not asked")
        }
        Verdict::Unreached => format!("{MISSED}, no test reaches it"),
    }
}
