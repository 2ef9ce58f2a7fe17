//! A writer among readers.

use super::figures::Figures;
use super::measure::note_counter;
use crate::plan::{Answer, Span};

/// The writer is the first worker of the first process, and it alone raises the counter.
#[allow(clippy::cast_precision_loss)]
pub fn note(figures: &mut Figures, counter: u64, answers: &[Answer], seconds: f64) {
    let mut tallies = answers.iter().flat_map(|answer| &answer.workers);
    let Some(writer) = tallies.next() else { return };
    let (reads, overlaps) =
        tallies.fold((0, 0), |(reads, all), one| (reads + one.holds, all + one.overlaps));
    note_counter(figures, counter, writer.holds + writer.late);
    let mut note = |name: &str, value: f64| figures.insert(name.to_owned(), value);
    note("writes_per_s", writer.holds as f64 / seconds);
    note("reads_per_s", reads as f64 / seconds);
    note("overlaps", overlaps as f64);

    let waits: Vec<Span> = answers.iter().flat_map(|one| one.write_waits.clone()).collect();
    let holds: Vec<Span> = answers.iter().flat_map(|one| one.read_holds.clone()).collect();
    for (name, nanos) in [
        ("write_wait", waits.iter().map(length).collect()),
        ("held", holds.iter().map(length).collect()),
        ("write_wait_beyond", beyond_longest_hold(&waits, &holds)),
    ] {
        let nanos = sorted(nanos);
        for (figure, part) in [("p50", 0.5), ("p99", 0.99), ("max", 1.0)] {
            if let Some(nanos) = quantile(&nanos, part) {
                note(&format!("{name}_{figure}_us"), nanos as f64 / 1e3);
            }
        }
    }
}

/// Of each wait, what is left when the longest of the holds that it met is taken off.
fn beyond_longest_hold(waits: &[Span], holds: &[Span]) -> Vec<u64> {
    let left = |wait: &Span| {
        let met = holds.iter().filter(|hold| hold[0] < wait[1] && wait[0] < hold[1]);
        length(wait).saturating_sub(met.map(length).max().unwrap_or(0))
    };
    waits.iter().map(left).collect()
}

fn length(span: &Span) -> u64 {
    span[1].saturating_sub(span[0])
}

fn sorted(mut nanos: Vec<u64>) -> Vec<u64> {
    nanos.sort_unstable();
    nanos
}

/// The least value that so large a part of all does not exceed.
#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::cast_sign_loss)]
fn quantile(sorted: &[u64], part: f64) -> Option<u64> {
    let rank = (sorted.len() as f64 * part).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_compared_with_the_longest_hold_that_it_met() {
        let holds = [[0, 50], [10, 30], [90, 500]];
        assert_eq!(beyond_longest_hold(&[[20, 90]], &holds), [20], "70 less the 50 of the first");
        assert_eq!(beyond_longest_hold(&[[40, 55]], &holds), [0], "shorter than the hold");
        assert_eq!(beyond_longest_hold(&[[60, 80]], &holds), [20], "it met none");
    }

    #[test]
    fn quantiles_are_values_that_were_measured() {
        let values: Vec<u64> = (1..=200).collect();
        assert_eq!(quantile(&values, 0.99), Some(198));
        assert_eq!(quantile(&values, 1.0), Some(200));
        assert_eq!(quantile(&[7], 0.5), Some(7));
        assert_eq!(quantile(&[], 0.5), None);
    }
}
