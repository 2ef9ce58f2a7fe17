//! The figures of an open loop, of the logs of all its processes.

use super::idle::idle;
use crate::harness::figures::Figures;
use crate::plan::Arrival;

/// All moments are nanoseconds after the beginning. The wait of whoever was not served counts as
/// long as it was, to `gives_up`; that of whoever was dropped does not.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub fn figures(arrivals: &[Arrival], window: f64, gives_up: f64) -> Figures {
    let gives_up = gives_up as u64;
    let called = || arrivals.iter().filter(|[_, called, ..]| *called > 0);
    let until = |began: u64| if began == 0 { gives_up } else { began };
    let waits =
        sorted(called().map(|&[scheduled, _, began, _]| until(began).saturating_sub(scheduled)));
    let late = sorted(called().map(|&[scheduled, called, ..]| called.saturating_sub(scheduled)));
    let bodies = arrivals.iter().filter(|[.., ended]| *ended > 0);
    let bodies = sorted(bodies.map(|&[_, _, began, ended]| ended - began));
    let in_time = arrivals.iter().filter(|[_, _, began, _]| (1..window as u64).contains(began));
    let unserved = called().filter(|[_, _, began, _]| *began == 0);
    let idle = idle(arrivals, gives_up);
    let mut figures = Figures::from([
        ("arrivals".to_owned(), arrivals.len() as f64),
        ("served_per_s".to_owned(), in_time.count() as f64 / window * 1e9),
        ("overload".to_owned(), (arrivals.len() - called().count()) as f64),
        ("unserved".to_owned(), unserved.count() as f64),
        ("longest_idle_ms".to_owned(), idle.longest_ns as f64 / 1e6),
        ("long_idles".to_owned(), idle.long as f64),
    ]);
    for (name, values, part) in [
        ("wait_p50_us", &waits, 0.5),
        ("wait_p99_us", &waits, 0.99),
        ("wait_max_us", &waits, 1.0),
        ("late_call_p99_us", &late, 0.99),
        ("body_p50_us", &bodies, 0.5),
    ] {
        if let Some(nanos) = quantile(values, part) {
            figures.insert(name.to_owned(), nanos as f64 / 1e3);
        }
    }
    figures
}

pub fn sorted(values: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut values: Vec<_> = values.collect();
    values.sort_unstable();
    values
}

/// The least value that so many are at most.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub fn quantile(sorted: &[u64], part: f64) -> Option<u64> {
    let wanted = (sorted.len() as f64 * part).ceil() as usize;
    sorted.get(wanted.max(1) - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_count_from_the_schedule_and_those_of_the_unserved_to_the_end() {
        let us = |moments: Arrival| moments.map(|moment| moment * 1_000);
        let arrivals = [
            us([1, 2, 3, 10]),
            us([5, 5, 12, 20]),
            us([6, 0, 0, 0]),
            us([30, 31, 0, 0]),
            us([40, 41, 150, 160]),
        ];
        let figures = figures(&arrivals, 100e3, 200e3);
        let of = |name: &str| figures[name];
        assert_eq!((of("wait_p50_us"), of("wait_max_us")), (7.0, 170.0));
        assert_eq!((of("overload"), of("unserved")), (1.0, 1.0));
        // Two bodies began within the window of 100 us.
        assert_eq!((of("served_per_s"), of("arrivals")), (20_000.0, 5.0));
    }
}
