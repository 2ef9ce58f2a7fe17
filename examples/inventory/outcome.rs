//! How an act ended, in numbers.

use std::time::Duration;

use crate::act::Act;
use crate::database::Tally;
use crate::event::{Event, Micros};
use crate::fleet::Message;
use crate::plot::Line;

/// One act that was played.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) act: Act,
    pub(crate) stock: u32,
    /// What the database says: the verdict rests on this alone.
    pub(crate) tally: Tally,
    pub(crate) began: Micros,
    pub(crate) took: Duration,
    pub(crate) messages: Vec<Message>,
    pub(crate) story: Vec<Line>,
    /// The accident that the act is about happened.
    pub(crate) is_complete: bool,
}

/// Figures over all customers of an act.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Figures {
    pub(crate) served: usize,
    pub(crate) refused: usize,
    pub(crate) wait_p50: Micros,
    pub(crate) wait_p99: Micros,
    /// Of those who bought something.
    pub(crate) held_p50: Micros,
    pub(crate) renewals: u32,
    pub(crate) lost: usize,
    pub(crate) failed: usize,
}

impl Outcome {
    /// Orders that cannot be delivered. Where stock was left over they are the orders of units
    /// that had been sold before.
    pub(crate) fn oversold(&self) -> i64 {
        let beyond = self.tally.orders - i64::from(self.stock);
        if beyond > 0 { beyond } else { self.tally.orders - self.tally.units }
    }

    /// Every unit that left the stock was sold once, and all of them were.
    pub(crate) fn is_exact(&self) -> bool {
        let Tally { orders, units, left, .. } = self.tally;
        orders == units && left == 0 && units == i64::from(self.stock)
    }

    /// The act ended as it must, or showed what it is there to show.
    pub(crate) fn is_passed(&self) -> bool {
        if self.act.must_be_exact() { self.is_exact() && self.is_complete } else { true }
    }

    pub(crate) fn figures(&self) -> Figures {
        let mut figures = Figures::default();
        let (mut waits, mut holds) = (Vec::new(), Vec::new());
        for (_, event) in &self.messages {
            match event {
                Event::Served { waited, held, seen, .. } => {
                    figures.served += 1;
                    figures.refused += usize::from(*seen == 0);
                    waits.push(*waited);
                    if *seen > 0 {
                        holds.push(*held);
                    }
                }
                Event::Renewed { .. } => figures.renewals += 1,
                Event::Lost { .. } => figures.lost += 1,
                Event::Failed { .. } => figures.failed += 1,
                _ => {}
            }
        }
        waits.sort_unstable();
        holds.sort_unstable();
        figures.wait_p50 = percentile(&waits, 50);
        figures.wait_p99 = percentile(&waits, 99);
        figures.held_p50 = percentile(&holds, 50);
        figures
    }

    /// Customers served per second.
    pub(crate) fn rate(&self) -> u64 {
        let micros = self.took.as_micros().max(1);
        u64::try_from(self.figures().served as u128 * 1_000_000 / micros).unwrap_or(u64::MAX)
    }

    /// The first error a customer got.
    pub(crate) fn first_failure(&self) -> Option<&str> {
        self.messages.iter().find_map(|(_, event)| match event {
            Event::Failed { text, .. } => Some(text.as_str()),
            _ => None,
        })
    }
}

/// The value below which `percent` of the sorted values lie; 0 without values.
pub(crate) fn percentile(sorted: &[Micros], percent: usize) -> Micros {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0)
}

/// `870 us`, `4.2 ms`, `1.01 s`
pub(crate) fn human(micros: Micros) -> String {
    match micros {
        0..1_000 => format!("{micros} us"),
        1_000..1_000_000 => format!("{}.{} ms", micros / 1_000, micros % 1_000 / 100),
        _ => format!("{}.{:02} s", micros / 1_000_000, micros % 1_000_000 / 10_000),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An outcome with these totals and a few events.
    pub(crate) fn outcome(act: Act, tally: Tally) -> Outcome {
        let served = |at, waited, seen| {
            (0, Event::Served { task: 1, at, waited, held: 900, fence: 5, seen })
        };
        Outcome {
            act,
            stock: 3,
            tally,
            began: 1_000,
            took: Duration::from_millis(2),
            messages: vec![
                served(2_000, 10, 3),
                served(3_000, 20, 2),
                served(4_000, 30, 1),
                served(5_000, 40, 0),
                (1, Event::Lost { at: 6_000, held: 9, renewals: 2, reason: "x < y".to_owned() }),
            ],
            story: vec![Line { at: 1_000, text: "p1 hangs & waits".to_owned() }],
            is_complete: true,
        }
    }

    #[test]
    fn percentiles_are_values_that_occurred() {
        let values: Vec<Micros> = (1..=100).collect();
        assert_eq!((percentile(&values, 50), percentile(&values, 99)), (50, 99));
        assert_eq!((percentile(&[7], 50), percentile(&[7], 99)), (7, 7));
        assert_eq!(percentile(&[], 99), 0);
    }

    #[test]
    fn figures_count_every_customer_once() {
        let figures = outcome(Act::Locked, Tally::default()).figures();
        assert_eq!((figures.served, figures.refused, figures.lost), (4, 1, 1));
        assert_eq!((figures.wait_p50, figures.wait_p99), (20, 40));
    }

    #[test]
    fn exact_means_all_units_once() {
        let sold = |orders, units, left| Tally { orders, units, left, most: 1 };
        assert!(outcome(Act::Locked, sold(3, 3, 0)).is_passed());
        assert!(!outcome(Act::Locked, sold(4, 3, 0)).is_passed());
        assert!(!outcome(Act::Locked, sold(2, 2, 1)).is_passed());
        assert!(outcome(Act::Unlocked, sold(9, 3, 1)).is_passed());
        assert_eq!(outcome(Act::Unlocked, sold(9, 3, 1)).oversold(), 6);
    }

    #[test]
    fn durations_read_well() {
        assert_eq!([human(870), human(4_250), human(1_012_345)], ["870 us", "4.2 ms", "1.01 s"]);
    }
}
