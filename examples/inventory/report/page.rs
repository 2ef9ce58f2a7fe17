//! The page around the drawings.

use std::fmt::Write;

use super::palette::{ALARM, colour, escape};
use super::plane::{Plane, label};
use super::{histogram, stock, timeline};
use crate::act::Act;
use crate::options::Options;
use crate::outcome::{Outcome, human};
use crate::plot::{Line, seconds};
use crate::server::Server;

const WIDTH: f64 = 760.0;
const STOCK_HEIGHT: f64 = 190.0;
const LANE_HEIGHT: f64 = 17.0;
const STYLE: &str = include_str!("page.css");

/// The whole report.
pub(crate) fn page(server: &Server, options: &Options, outcomes: &[Outcome]) -> String {
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>redlock inventory demo</title>\n<style>{STYLE}</style></head><body><main>\n"
    );
    let _ = writeln!(
        html,
        "<h1>redlock inventory demo</h1><p class=\"lead\">{} {} × {} tasks sell {} units \
         to {} customers from one SQLite database. Redis: {}.</p>",
        options.procs,
        server.workers(),
        options.tasks,
        options.stock(),
        options.customers(),
        escape(&server.describe())
    );
    html.push_str(&table(outcomes));
    legend(&mut html, options.procs());
    for outcome in outcomes {
        section(&mut html, options, outcome);
    }
    html.push_str("</main></body></html>\n");
    html
}

fn table(outcomes: &[Outcome]) -> String {
    let mut html = String::from(
        "<table><thead><tr><th>act</th><th></th><th>sold</th><th>of</th><th>served/s</th>\
         <th>wait p50</th><th>wait p99</th><th>renewals</th><th></th></tr></thead><tbody>\n",
    );
    for outcome in outcomes {
        let figures = outcome.figures();
        let is_locked = outcome.act != Act::Unlocked;
        let of_lock = |text: String| if is_locked { text } else { "–".to_owned() };
        let _ = writeln!(
            html,
            "<tr><td>{}</td><td class=\"name\">{}</td><td>{}</td><td>{}</td><td>{}</td>\
             <td>{}</td><td>{}</td><td>{}</td><td class=\"name\">{}</td></tr>",
            outcome.act.label(),
            escape(outcome.act.title()),
            outcome.tally.orders,
            outcome.stock,
            outcome.rate(),
            of_lock(human(figures.wait_p50)),
            of_lock(human(figures.wait_p99)),
            of_lock(figures.renewals.to_string()),
            chip(outcome),
        );
    }
    html + "</tbody></table>\n"
}

fn chip(outcome: &Outcome) -> String {
    let (class, text) = match (outcome.is_exact(), outcome.oversold()) {
        (true, _) => ("good", "exact".to_owned()),
        (_, 0) => ("bad", "not sold out".to_owned()),
        (_, more) => ("bad", format!("oversold by {more}")),
    };
    format!("<span class=\"chip {class}\">{text}</span>")
}

fn legend(html: &mut String, procs: usize) {
    html.push_str("<p class=\"legend\">");
    for proc in 0..procs {
        let _ = write!(html, "<i style=\"background:{}\"></i>p{proc} ", colour(proc));
    }
    html.push_str("<i class=\"hatched\"></i>the unlucky holder's lease</p>\n");
}

fn section(html: &mut String, options: &Options, outcome: &Outcome) {
    let act = outcome.act;
    let _ = writeln!(
        html,
        "<section><h2>{} <small>{}</small> {}</h2><p>{}</p><div class=\"plots\">{}{}</div>",
        act.label(),
        escape(act.title()),
        chip(outcome),
        escape(act.story()),
        course(outcome, options.procs()),
        aside(outcome),
    );
    html.push_str("</section>\n");
}

/// What stands beside the course of an act: waits, and the story.
fn aside(outcome: &Outcome) -> String {
    let mut html = String::from("<div class=\"aside\">");
    if outcome.act == Act::Unlocked {
        let _ = write!(
            html,
            "<p class=\"fact\">{} orders for {} units. The unit that was sold most often was sold \
             {} times.</p>",
            outcome.tally.orders, outcome.stock, outcome.tally.most
        );
    } else {
        html.push_str(&histogram::draw(outcome));
    }
    if !outcome.story.is_empty() {
        html.push_str("<dl>");
        for Line { at, text } in &outcome.story {
            let _ = write!(html, "<dt>{}</dt><dd>{}</dd>", seconds(*at), escape(text));
        }
        html.push_str("</dl>");
    }
    html + "</div>"
}

/// Stock and holders on one time axis.
fn course(outcome: &Outcome, procs: usize) -> String {
    let lanes = LANE_HEIGHT * f64::from(u16::try_from(procs).unwrap_or(u16::MAX));
    let above = Plane {
        left: 44.0,
        top: 24.0,
        width: WIDTH - 60.0,
        height: STOCK_HEIGHT,
        x_max: outcome.took.as_secs_f64().max(0.001),
        y_max: f64::from(outcome.stock),
    };
    let below = Plane { top: above.bottom() + 34.0, height: lanes, ..above };
    let height = below.bottom() + 24.0;
    let mut svg = format!(
        r#"<svg class="course" viewBox="0 0 {WIDTH} {height}" role="img"><defs>
<pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse"
patternTransform="rotate(45)">
<rect width="6" height="6" fill="{ALARM}" opacity=".10"/>
<rect width="2" height="6" fill="{ALARM}" opacity=".45"/></pattern></defs>
"#
    );
    label(&mut svg, "axis", (above.left, 14.0), "units in stock, as each order left it");
    stock::draw(&mut svg, &above, outcome);
    let who = if outcome.act == Act::Unlocked {
        "who is between read and write (all at once)"
    } else {
        "who holds the lock"
    };
    label(&mut svg, "axis", (below.left, below.top - 8.0), who);
    timeline::draw(&mut svg, &below, outcome, procs);
    svg + "</svg>"
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::database::Tally;
    use crate::outcome::tests::outcome;

    fn rendered(act: Act, tally: Tally) -> String {
        let options = Options::try_parse_from(["inventory"]).unwrap();
        page(&Server::Embedded { reason: "none & nothing" }, &options, &[outcome(act, tally)])
    }

    #[test]
    fn the_page_is_self_contained_and_says_the_verdict() {
        let html = rendered(Act::Hung, Tally { orders: 3, units: 3, left: 0, most: 1 });
        assert!(html.contains(">exact</span>") && html.contains("none &amp; nothing"));
        assert!(!html.contains("http"), "nothing is loaded from anywhere");
        assert!(!html.contains("NaN") && !html.contains("inf"), "every number is one");
    }

    #[test]
    fn every_order_is_a_dot_and_every_call_a_bar() {
        let html = rendered(Act::Locked, Tally { orders: 3, units: 3, left: 0, most: 1 });
        assert_eq!(html.matches("<circle").count(), 3);
        assert_eq!(html.matches(r#"opacity=".75""#).count(), 4);
        assert_eq!(html.matches("<svg").count(), html.matches("</svg>").count());
    }

    #[test]
    fn overselling_is_said_with_its_number() {
        let html = rendered(Act::Unlocked, Tally { orders: 9, units: 3, left: 0, most: 4 });
        assert!(html.contains("oversold by 6") && html.contains("sold 4 times"));
    }
}
