//! Who held the lock when: one lane per process.

use std::fmt::Write;

use super::palette::{ALARM, colour};
use super::plane::{Plane, label, line, seconds};
use crate::event::{Event, Micros};
use crate::outcome::Outcome;

/// Draws one bar per call, and the hold of the unlucky one.
pub(super) fn draw(svg: &mut String, plane: &Plane, outcome: &Outcome, procs: usize) {
    plane.x_axis(svg, " s", true);
    for proc in 0..procs {
        let (top, height) = lane(plane, procs, proc);
        let middle = top + height / 2.0;
        line(svg, "grid", (plane.left, middle), (plane.right(), middle));
        label(svg, "tick end", (plane.left - 6.0, middle + 4.0), &format!("p{proc}"));
    }
    for (proc, event) in &outcome.messages {
        if let Event::Served { at, held, .. } = event {
            let (from, to) = (at.saturating_sub(*held), *at);
            let extra = format!(r#"fill="{}" opacity=".75""#, colour(*proc));
            bar(svg, plane, outcome, (lane(plane, procs, *proc), from, to), &extra);
        }
    }
    if let Some((proc, from, to)) = accident(outcome) {
        let extra = format!(r#"fill="url(#hatch)" stroke="{ALARM}""#);
        bar(svg, plane, outcome, (lane(plane, procs, proc), from, to), &extra);
    }
}

/// The unlucky hold: from its read until it was stopped, or until the next holder came in.
fn accident(outcome: &Outcome) -> Option<(usize, Micros, Micros)> {
    let find = |(proc, event): &(usize, Event)| match event {
        Event::Incident { at, fence, .. } => Some((*proc, *at, *fence)),
        _ => None,
    };
    let (proc, from, old) = outcome.messages.iter().find_map(find)?;
    let next = |(_, event): &(usize, Event)| match event {
        Event::Served { at, held, fence, .. } if *fence > old => Some(at.saturating_sub(*held)),
        _ => None,
    };
    let to = outcome.messages.iter().filter_map(next).min()?;
    Some((proc, from, to))
}

fn lane(plane: &Plane, procs: usize, proc: usize) -> (f64, f64) {
    let count = u16::try_from(procs.max(1)).unwrap_or(u16::MAX);
    let index = u16::try_from(proc).unwrap_or(u16::MAX);
    let height = plane.height / f64::from(count);
    (plane.top + height * (f64::from(index) + 0.1), height * 0.8)
}

fn bar(
    svg: &mut String,
    plane: &Plane,
    outcome: &Outcome,
    ((y, height), from, to): ((f64, f64), Micros, Micros),
    extra: &str,
) {
    let x = plane.x(seconds(from, outcome.began));
    let width = (plane.x(seconds(to, outcome.began)) - x).max(0.5);
    let _ = writeln!(
        svg,
        r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" {extra}/>"#
    );
}
