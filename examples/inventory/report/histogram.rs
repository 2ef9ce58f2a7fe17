//! How long customers waited for the lock, on a logarithmic scale.
#![allow(clippy::cast_precision_loss, reason = "pixels need no more than 52 bits")]

use std::fmt::Write;

use super::plane::{Plane, label, line};
use crate::event::{Event, Micros};
use crate::outcome::{Outcome, human};

const STEPS_PER_DECADE: usize = 4;
/// 100 us to 10 s.
const DECADES: usize = 5;
const FIRST: f64 = 100.0;
const BUCKETS: usize = STEPS_PER_DECADE * DECADES;

pub(super) const WIDTH: f64 = 330.0;
pub(super) const HEIGHT: f64 = 200.0;

pub(super) fn draw(outcome: &Outcome) -> String {
    let counts = counts(&waits(outcome));
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    let plane = Plane {
        left: 36.0,
        top: 40.0,
        width: WIDTH - 56.0,
        height: HEIGHT - 64.0,
        x_max: BUCKETS as f64,
        y_max: most as f64,
    };
    let mut svg = format!(r#"<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">"#);
    label(&mut svg, "axis", (plane.left, 16.0), "customers by their wait for the lock");
    plane.y_axis(&mut svg);
    for decade in 0..=DECADES {
        let x = plane.x((decade * STEPS_PER_DECADE) as f64);
        line(&mut svg, "grid", (x, plane.top), (x, plane.bottom()));
        let name = ["100 us", "1 ms", "10 ms", "100 ms", "1 s", "10 s"][decade];
        label(&mut svg, "tick middle", (x, plane.bottom() + 16.0), name);
    }
    for (bucket, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let (x, next) = (plane.x(bucket as f64), plane.x(bucket as f64 + 1.0));
        let (y, width) = (plane.y(*count as f64), next - x - 1.0);
        let height = plane.bottom() - y;
        let size = format!(r#"width="{width:.1}" height="{height:.1}""#);
        let _ = writeln!(svg, r#"<rect class="bucket" x="{x:.1}" y="{y:.1}" {size}/>"#);
    }
    let figures = outcome.figures();
    let text =
        format!("half under {}, 99 % under {}", human(figures.wait_p50), human(figures.wait_p99));
    label(&mut svg, "tick", (plane.left, 31.0), &text);
    svg.push_str("</svg>");
    svg
}

fn waits(outcome: &Outcome) -> Vec<Micros> {
    let wait = |(_, event): &(usize, Event)| match event {
        Event::Served { waited, .. } => Some(*waited),
        _ => None,
    };
    outcome.messages.iter().filter_map(wait).collect()
}

/// How many waits fall into each bucket; the first and the last take what lies outside.
fn counts(waits: &[Micros]) -> [usize; BUCKETS] {
    let mut counts = [0; BUCKETS];
    for wait in waits {
        let edge =
            |bucket: usize| FIRST * 10_f64.powf((bucket + 1) as f64 / STEPS_PER_DECADE as f64);
        let bucket = (0..BUCKETS - 1).find(|bucket| (*wait as f64) < edge(*bucket));
        counts[bucket.unwrap_or(BUCKETS - 1)] += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wait_falls_into_one_bucket() {
        let counts = counts(&[0, 99, 150, 999, 1_001, u64::MAX]);
        assert_eq!(counts.iter().sum::<usize>(), 6);
        assert_eq!((counts[0], counts[3], counts[4], counts[BUCKETS - 1]), (3, 1, 1, 1));
    }
}
