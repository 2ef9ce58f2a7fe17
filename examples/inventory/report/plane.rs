//! The plane of a plot: from values to pixels, and its axes.
#![allow(clippy::cast_precision_loss, reason = "pixels need no more than 52 bits")]

use std::fmt::Write;

use crate::event::Micros;

/// A rectangle of the drawing and the values that its edges stand for. Both axes begin at 0.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plane {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) x_max: f64,
    pub(super) y_max: f64,
}

impl Plane {
    pub(super) fn x(&self, value: f64) -> f64 {
        self.left + self.width * (value / self.x_max).clamp(0.0, 1.0)
    }

    pub(super) fn y(&self, value: f64) -> f64 {
        self.top + self.height * (1.0 - (value / self.y_max).clamp(0.0, 1.0))
    }

    pub(super) fn right(&self) -> f64 {
        self.left + self.width
    }

    pub(super) fn bottom(&self) -> f64 {
        self.top + self.height
    }

    /// Vertical grid lines at round values, labelled where `is_labelled`.
    pub(super) fn x_axis(&self, svg: &mut String, unit: &str, is_labelled: bool) {
        let (top, bottom) = (self.top, self.bottom());
        for tick in ticks(self.x_max, 8) {
            let x = self.x(tick);
            line(svg, "grid", (x, top), (x, bottom));
            if is_labelled {
                label(svg, "tick middle", (x, bottom + 16.0), &format!("{}{unit}", short(tick)));
            }
        }
    }

    /// Horizontal grid lines at round values, labelled.
    pub(super) fn y_axis(&self, svg: &mut String) {
        for tick in ticks(self.y_max, 4) {
            let y = self.y(tick);
            line(svg, "grid", (self.left, y), (self.right(), y));
            label(svg, "tick end", (self.left - 6.0, y + 4.0), &short(tick));
        }
    }
}

/// Seconds since `began`.
pub(super) fn seconds(at: Micros, began: Micros) -> f64 {
    at.saturating_sub(began) as f64 / 1e6
}

pub(super) fn line(svg: &mut String, class: &str, from: (f64, f64), to: (f64, f64)) {
    let ((x1, y1), (x2, y2)) = (from, to);
    let _ = writeln!(
        svg,
        r#"<line class="{class}" x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}"/>"#
    );
}

/// `text` must be escaped.
pub(super) fn label(svg: &mut String, class: &str, at: (f64, f64), text: &str) {
    let (x, y) = at;
    let _ = writeln!(svg, r#"<text class="{class}" x="{x:.1}" y="{y:.1}">{text}</text>"#);
}

/// Round values from 0 to `max`, at most `count` steps apart.
pub(super) fn ticks(max: f64, count: u32) -> Vec<f64> {
    let least = max / f64::from(count.max(1));
    let power = 10_f64.powf(least.max(1e-9).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|round| round * power);
    let step = step.into_iter().find(|step| *step >= least * 0.999).unwrap_or(power * 10.0);
    let all = (0..=count * 2).map(|i| f64::from(i) * step);
    all.take_while(|tick| *tick <= max * 1.001).collect()
}

fn short(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(ticks(300.0, 4), [0.0, 100.0, 200.0, 300.0]);
        let labels: Vec<String> = ticks(1.3, 8).into_iter().map(short).collect();
        assert_eq!(labels, ["0", "0.2", "0.4", "0.6", "0.8", "1", "1.2"]);
        assert!(ticks(0.0, 4).len() < 100);
    }

    #[test]
    fn values_outside_stay_on_the_edge() {
        let plane =
            Plane { left: 10.0, top: 0.0, width: 100.0, height: 50.0, x_max: 2.0, y_max: 5.0 };
        assert_eq!((plane.x(1.0), plane.x(9.0)), (60.0, 110.0));
        assert_eq!((plane.y(5.0), plane.y(-1.0)), (0.0, 50.0));
    }
}
