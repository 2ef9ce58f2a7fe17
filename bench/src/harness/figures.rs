//! What the answers of workers and the counters of server and system say together.

use std::collections::BTreeMap;

use super::usage::Usage;
use crate::histogram::Histogram;
use crate::plan::{Answer, Tally};

/// Names and values; units last in the names.
pub type Figures = BTreeMap<String, f64>;

/// `used` is what was used in the `seconds` of the measurement.
#[allow(clippy::cast_precision_loss)]
pub fn figures(answers: &[Answer], used: &Usage, seconds: f64) -> Figures {
    let tallies: Vec<&Tally> = answers.iter().flat_map(|answer| &answer.workers).collect();
    let sum = |count: fn(&Tally) -> u64| tallies.iter().map(|tally| count(tally)).sum::<u64>();
    let (holds, hand_overs) =
        (sum(|tally| tally.holds) as f64, sum(|tally| tally.hand_overs) as f64);
    let mut figures = Figures::new();
    let mut note = |name: &str, value: f64| {
        if value.is_finite() {
            figures.insert(name.to_owned(), value);
        }
    };
    note("cycles_per_s", holds / seconds);
    note("hand_overs_per_s", hand_overs / seconds);
    note("errors", sum(|tally| tally.errors) as f64);
    note("share_of_workers", share(tallies.iter().map(|tally| tally.holds)));
    note("share_of_processes", share(answers.iter().map(holds_of)));

    let (wait, cycle) = (merged(answers, |one| &one.wait), merged(answers, |one| &one.cycle));
    let passed = merged(answers, |answer| &answer.passed);
    for (name, histogram) in [("wait", &wait), ("cycle", &cycle), ("passed", &passed)] {
        for (quantile, part) in [("p50", 0.5), ("p99", 0.99)] {
            let nanos = histogram.quantile(part);
            note(&format!("{name}_{quantile}_us"), nanos.unwrap_or(f64::NAN) / 1e3);
        }
        let max = if histogram.max() == 0 { f64::NAN } else { histogram.max() as f64 };
        note(&format!("{name}_max_us"), max / 1e3);
    }

    note("client_cpu_us", used.client_cpu_s * 1e6 / holds);
    note("server_cpu_us", used.server_cpu_s * 1e6 / holds);
    note("client_cpu_percent", used.client_cpu_s / seconds * 100.0);
    note("server_cpu_percent", used.server_cpu_s / seconds * 100.0);
    note("scripts", used.scripts() / holds);
    note("calls", used.all_calls() / holds);
    note("calls_per_s", used.all_calls() / seconds);
    note("scripts_per_hand_over", used.scripts() / hand_overs);
    note("publishes_per_hand_over", used.publishes() / hand_overs);
    note("calls_per_hand_over", used.all_calls() / hand_overs);
    for answer in answers {
        for (name, &value) in &answer.extra {
            note(name, value);
        }
    }
    figures
}

/// How often the cell must have been raised.
pub fn increments(answers: &[Answer]) -> u64 {
    let tallies = answers.iter().flat_map(|answer| &answer.workers);
    tallies.map(|tally| tally.holds + tally.late).sum()
}

fn holds_of(answer: &Answer) -> u64 {
    answer.workers.iter().map(|tally| tally.holds).sum()
}

/// Least served by most served.
#[allow(clippy::cast_precision_loss)]
fn share(served: impl Iterator<Item = u64> + Clone) -> f64 {
    served.clone().min().unwrap_or(0) as f64 / served.max().unwrap_or(0) as f64
}

fn merged(answers: &[Answer], part: fn(&Answer) -> &Histogram) -> Histogram {
    let mut all = Histogram::default();
    for answer in answers {
        all.merge(part(answer));
    }
    all
}
