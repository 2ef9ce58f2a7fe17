//! The stock over time, as the orders left it.
#![allow(clippy::cast_precision_loss, reason = "pixels need no more than 52 bits")]

use std::fmt::Write;

use super::palette::{ALARM, colour};
use super::plane::{Plane, label, line, seconds};
use crate::act::Act;
use crate::event::{Event, Micros};
use crate::outcome::Outcome;

/// One write: when, by whom, and the stock that it left.
struct Step {
    at: Micros,
    proc: usize,
    left: i64,
    is_stale: bool,
}

/// Draws the stock as a line and each order as a dot of its process' colour.
pub(super) fn draw(svg: &mut String, plane: &Plane, outcome: &Outcome) {
    plane.x_axis(svg, " s", false);
    plane.y_axis(svg);
    let steps = steps(outcome);
    let mut path = format!("M{:.1} {:.1}", plane.x(0.0), plane.y(f64::from(outcome.stock)));
    for step in &steps {
        let x = plane.x(seconds(step.at, outcome.began));
        let _ = write!(path, "H{x:.1}V{:.1}", plane.y(step.left as f64));
    }
    let _ = write!(path, "H{:.1}", plane.right());
    let _ = writeln!(svg, r#"<path class="stock" d="{path}"/>"#);
    for step in &steps {
        let (x, y) = (plane.x(seconds(step.at, outcome.began)), plane.y(step.left as f64));
        let (radius, fill) = if step.is_stale { (5.0, ALARM) } else { (1.7, colour(step.proc)) };
        let _ = writeln!(svg, r#"<circle cx="{x:.1}" cy="{y:.1}" r="{radius}" fill="{fill}"/>"#);
    }
    marks(svg, plane, outcome);
}

fn steps(outcome: &Outcome) -> Vec<Step> {
    let step = |message: &(usize, Event)| match message {
        (proc, Event::Served { at, seen, .. }) if *seen > 0 => {
            Some(Step { at: *at, proc: *proc, left: seen - 1, is_stale: false })
        }
        (proc, Event::Stale { at, seen, .. }) => {
            Some(Step { at: *at, proc: *proc, left: seen - 1, is_stale: true })
        }
        _ => None,
    };
    let mut steps: Vec<Step> = outcome.messages.iter().filter_map(step).collect();
    steps.sort_by_key(|step| step.at);
    steps
}

/// Names what happened to the unlucky holder, where it happened.
fn marks(svg: &mut String, plane: &Plane, outcome: &Outcome) {
    let mut row = 0.0;
    for (proc, event) in &outcome.messages {
        let (at, text) = match event {
            Event::Incident { at, .. } => {
                (*at, format!("p{proc} reads, then {}", fate(outcome.act)))
            }
            Event::Stale { at, .. } => (*at, "late write accepted".to_owned()),
            Event::Fenced { at, .. } => (*at, "late write refused".to_owned()),
            Event::Lost { at, .. } if outcome.act == Act::Hung => (*at, "body stopped".to_owned()),
            _ => continue,
        };
        let x = plane.x(seconds(at, outcome.began));
        line(svg, "mark", (x, plane.top), (x, plane.bottom()));
        let is_right = x > plane.right() - 130.0;
        let (class, x) = if is_right { ("note end", x - 5.0) } else { ("note", x + 5.0) };
        label(svg, class, (x, plane.top + 12.0 + row), &text);
        row += 15.0;
    }
}

/// What kept the unlucky holder from its write.
fn fate(act: Act) -> &'static str {
    match act {
        Act::Killed => "dies",
        Act::Hung => "hangs",
        Act::Zombie | Act::FencedZombie => "freezes",
        Act::Unlocked | Act::Locked => "goes on",
    }
}
