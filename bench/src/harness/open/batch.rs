//! Readers that all come while a writer has the lock, again and again: how soon after the first of
//! them is the last one inside?

use super::super::figures::Figures;
use super::super::lab::Lab;
use super::super::measure::Cell;
use super::super::scenario::Scenario;
use super::super::subjects::Subject;
use super::run::answers;
use super::summary::{quantile, sorted};
use crate::Failure;
use crate::plan::Arrival;

const MS: u64 = 1_000_000;
/// From one writer to the next: long enough for those who poll.
const PERIOD: u64 = 250 * MS;
/// The writer comes, and the readers come while its body runs.
const WRITER: u64 = MS;
const READERS: u64 = 8 * MS;

#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub async fn measure(
    lab: &mut Lab,
    scenario: &Scenario,
    subject: &Subject,
) -> Result<Figures, Failure> {
    let seconds = lab.options.seconds(scenario.seconds);
    let batches = (seconds * 1e9) as u64 / PERIOD;
    let of = |after: u64| (0..batches).map(|batch| batch * PERIOD + after).collect::<Vec<_>>();
    // The first worker of each process writes, in the first process, or has nothing to do.
    let lists: Vec<_> = (0..scenario.processes * scenario.tasks)
        .map(|worker| match worker {
            0 => of(WRITER),
            other if other % scenario.tasks == 0 => Vec::new(),
            _ => of(READERS),
        })
        .collect();
    let gives_up = 1.5e9 * seconds;
    let answers = answers(lab, scenario, subject, &Cell::none(), &lists, gives_up).await?;
    let arrivals: Vec<_> = answers.iter().flat_map(|answer| &answer.arrivals).copied().collect();
    let mut figures = figures(&arrivals, batches, gives_up as u64);
    let errors: u64 =
        answers.iter().flat_map(|answer| &answer.workers).map(|tally| tally.errors).sum();
    figures.insert("errors".to_owned(), errors as f64);
    Ok(figures)
}

/// Whoever was not served began and ended at the end.
#[allow(clippy::cast_precision_loss)]
fn figures(arrivals: &[Arrival], batches: u64, gives_up: u64) -> Figures {
    let (mut spreads, mut behind) = (Vec::new(), Vec::new());
    let (mut least_inside, mut overlaps, mut after_release) = (u64::MAX, 0, 0_u64);
    let or_end = |moment: u64| if moment == 0 { gives_up } else { moment };
    for batch in 0..batches {
        let of = |after: u64| {
            let due = batch * PERIOD + after;
            let all = arrivals.iter().filter(move |[scheduled, ..]| *scheduled == due);
            all.map(|&[_, called, began, ended]| (called, or_end(began), or_end(ended)))
        };
        let Some((_, wrote, released)) = of(WRITER).next() else { continue };
        let first = of(READERS).map(|(_, began, _)| began).min().unwrap_or(gives_up);
        let last = of(READERS).map(|(_, began, _)| began).max().unwrap_or(gives_up);
        let first_out = of(READERS).map(|(.., ended)| ended).min().unwrap_or(gives_up);
        let together = of(READERS).filter(|(_, began, _)| *began < first_out).count();
        least_inside = least_inside.min(u64::try_from(together).unwrap_or(u64::MAX));
        overlaps +=
            of(READERS).filter(|(_, began, ended)| *began < released && *ended > wrote).count();
        // Of a machine that was busy elsewhere: they did not wait for the writer.
        if of(READERS).any(|(called, ..)| called >= released) {
            after_release += 1;
            continue;
        }
        spreads.push(last - first);
        behind.push(first.saturating_sub(released));
    }
    let (spreads, behind) = (sorted(spreads.into_iter()), sorted(behind.into_iter()));
    let mut figures = Figures::from([
        ("least_inside".to_owned(), least_inside as f64),
        ("overlaps".to_owned(), overlaps as f64),
        ("left_out".to_owned(), after_release as f64),
    ]);
    for (name, values, part) in [
        ("spread_p50_us", &spreads, 0.5),
        ("spread_p99_us", &spreads, 0.99),
        ("behind_p50_us", &behind, 0.5),
    ] {
        if let Some(nanos) = quantile(values, part) {
            figures.insert(name.to_owned(), nanos as f64 / 1e3);
        }
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(arrivals: &[Arrival]) -> Figures {
        let us = |one: &Arrival| one.map(|moment| moment * 1_000);
        figures(&arrivals.iter().map(us).collect::<Vec<_>>(), 1, PERIOD)
    }

    #[test]
    fn a_batch_is_as_wide_as_its_last_reader_is_late() {
        let readers = [[8_000, 8_010, 21_100, 41_100], [8_000, 8_020, 21_300, 41_300]];
        let figures = of(&[[1_000, 1_001, 1_200, 21_000], readers[0], readers[1]]);
        assert_eq!((figures["spread_p50_us"], figures["behind_p50_us"]), (200.0, 100.0));
        assert_eq!((figures["least_inside"], figures["overlaps"]), (2.0, 0.0));
    }

    #[test]
    fn a_reader_beside_the_writer_is_seen() {
        let figures = of(&[[1_000, 1_001, 1_200, 21_000], [8_000, 8_010, 20_900, 41_000]]);
        assert!(figures["overlaps"] > 0.0);
    }
}
