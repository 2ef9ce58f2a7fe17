//! The perfect lock: whoever came first is served first, and each hold takes the service time.

use crate::plan::Arrival;

/// Lindley's recursion over the very arrivals of the measurement: each waits for what those before
/// it still need. With arrivals by chance it is the queue M/D/1.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub fn serve(scheduled: &[u64], service_ns: f64) -> Vec<Arrival> {
    let mut scheduled = scheduled.to_vec();
    scheduled.sort_unstable();
    let mut is_free_at = 0;
    let serve = |moment: u64| {
        let began = moment.max(is_free_at);
        is_free_at = began + service_ns as u64;
        [moment, moment, began, is_free_at]
    };
    scheduled.into_iter().map(serve).collect()
}

#[cfg(test)]
mod tests {
    use super::super::arrivals::by_chance;
    use super::*;

    #[test]
    fn each_waits_for_those_before_it() {
        let served = serve(&[100, 10, 12, 14], 5.0);
        let waits: Vec<_> =
            served.iter().map(|[scheduled, _, began, _]| began - scheduled).collect();
        assert_eq!(waits, [0, 3, 6, 0]);
    }

    /// Pollaczek and Khinchine: of M/D/1 the mean wait is load / (2 - 2 load) service times.
    #[test]
    fn the_mean_wait_is_that_of_the_theory() {
        for load in [0.1, 0.5, 0.8] {
            let served = serve(&by_chance(3, load / 1e6, 1e12), 1e6);
            let sum: u64 = served.iter().map(|[scheduled, _, began, _]| began - scheduled).sum();
            #[allow(clippy::cast_precision_loss)]
            let mean = sum as f64 / served.len() as f64 / 1e6;
            let theory = load / (2.0 - 2.0 * load);
            assert!((mean / theory - 1.0).abs() < 0.05, "{mean} at {load}, not {theory}");
        }
    }
}
