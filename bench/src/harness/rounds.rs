//! All scenarios with all subjects, in turn, in several rounds.

use std::collections::BTreeMap;
use std::time::Instant;

use super::lab::Lab;
use super::machine::Machine;
use super::measure::measure;
use super::options::{self, Options};
use super::results::Results;
use super::scenario::{Kind, SCENARIOS, Scenario};
use super::subjects::{Program, Role, SUBJECTS, Subject};
use crate::{Failure, report};

pub fn run(options: &Options) -> Result<(), Failure> {
    if options.list {
        list();
        return Ok(());
    }
    let names = || SCENARIOS.iter().map(|scenario| scenario.name);
    let names = || names().chain(SUBJECTS.iter().map(|subject| subject.name));
    if let Some(unknown) =
        options.only.iter().find(|only| !names().any(|name| options::names(only, name)))
    {
        return Err(format!("--only: there is no {unknown}, see --list").into());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(all(options))
}

fn list() {
    println!("scenarios:");
    for scenario in SCENARIOS {
        println!("  {}", scenario.name);
    }
    println!("subjects:");
    for subject in SUBJECTS {
        println!("  {:<24} {}", subject.name, subject.about);
    }
}

async fn all(options: &Options) -> Result<(), Failure> {
    let begin = Instant::now();
    let mut lab = Lab::open(options).await?;
    let mut results = Results {
        machine: Machine::of(&mut lab).await?,
        rounds: options.rounds(),
        not_measured: not_measured(&lab),
        scenarios: BTreeMap::new(),
    };
    let out = options.out(&lab.root, &lab.target);
    for round in 0..options.rounds() {
        play(&mut lab, round, &mut results, begin).await;
        // What is there is kept, should somebody end the program.
        results.summarize();
        report::write(&results, &lab.root, &out)?;
    }
    eprintln!("bench: {} s, written to {}", begin.elapsed().as_secs(), out.display());
    match &results.wrong_sums()[..] {
        [] => Ok(()),
        wrong => Err(format!("wrong sums: {}", wrong.join("; ")).into()),
    }
}

async fn play(lab: &mut Lab, round: usize, results: &mut Results, begin: Instant) {
    let options = lab.options.clone();
    lab.begin_round(round);
    for scenario in SCENARIOS.iter().filter(|scenario| is_due(&options, scenario, round)) {
        for subject in in_turn(&options, scenario, round) {
            if results.not_measured.contains_key(subject.name) {
                continue;
            }
            eprint!("bench: {:>4} s, round {} ", begin.elapsed().as_secs(), round + 1);
            eprintln!("{} {}", scenario.name, subject.name);
            match measure(lab, scenario, subject).await {
                Ok(figures) => results.note(scenario.name, subject.name, round, figures),
                Err(error) => eprintln!("bench: {} failed: {error}", subject.name),
            }
        }
    }
}

fn is_due(options: &Options, scenario: &Scenario, round: usize) -> bool {
    let is_wanted = options.wants(scenario.name, SCENARIOS.iter().map(|scenario| scenario.name));
    let no_leases = scenario.kind == Kind::Leases && options.leases == 0;
    is_wanted && !no_leases && (round == 0 || !scenario.is_once)
}

/// Each round begins with another subject: who comes first has the machine as the others left it.
fn in_turn(options: &Options, scenario: &Scenario, round: usize) -> Vec<&'static Subject> {
    let names = || SUBJECTS.iter().map(|subject| subject.name);
    let is_chosen = |subject: &Subject| {
        let all = subject.role != Role::Peer || scenario.peers.is_empty();
        all || scenario.peers.contains(&subject.name)
    };
    let takes_part = |subject: &&Subject| {
        let is_named = scenario.names.is_empty() || scenario.names.contains(&subject.name);
        let has_role = scenario.roles.contains(&subject.role) && is_chosen(subject) && is_named;
        // Arithmetic costs nothing, and all others are compared with it.
        has_role && (subject.role == Role::Perfect || options.wants(subject.name, names()))
    };
    let mut subjects: Vec<_> = SUBJECTS.iter().filter(takes_part).collect();
    let turn = round % subjects.len().max(1);
    subjects.rotate_left(turn);
    subjects
}

fn not_measured(lab: &Lab) -> BTreeMap<String, String> {
    let missing = SUBJECTS.iter().filter_map(|subject| {
        let why = match (subject.role, subject.program) {
            (Role::Valkey, _) => lab.valkey.as_ref().err()?,
            (_, Program::Peer(dir)) => lab.peers.get(dir)?.as_ref().err()?,
            (_, Program::Own) => return None,
        };
        eprintln!("bench: {} is not measured: {why}", subject.name);
        Some((subject.name.to_owned(), why.clone()))
    });
    missing.collect()
}
