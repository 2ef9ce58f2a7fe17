//! The result for programs: one JSON object.

use std::fmt::Write;

use crate::options::Options;
use crate::outcome::Outcome;
use crate::server::Server;

pub(crate) fn result(server: &Server, options: &Options, outcomes: &[Outcome]) -> String {
    let acts: Vec<String> = outcomes.iter().map(act).collect();
    let is_passed = outcomes.iter().all(Outcome::is_passed);
    object(&[
        ("passed", is_passed.to_string()),
        ("server", text(server.kind())),
        ("server_description", text(&server.describe())),
        ("procs", options.procs.to_string()),
        ("tasks", options.tasks.to_string()),
        ("stock", options.stock().to_string()),
        ("customers", options.customers().to_string()),
        ("report", text(&options.report.to_string_lossy())),
        ("acts", format!("[{}]", acts.join(","))),
    ])
}

fn act(outcome: &Outcome) -> String {
    let figures = outcome.figures();
    let story: Vec<String> =
        outcome.story.iter().map(|line| text(line.to_string().trim())).collect();
    object(&[
        ("act", outcome.act.number().to_string()),
        ("name", text(outcome.act.name())),
        ("passed", outcome.is_passed().to_string()),
        ("exact", outcome.is_exact().to_string()),
        ("orders", outcome.tally.orders.to_string()),
        ("units", outcome.tally.units.to_string()),
        ("left", outcome.tally.left.to_string()),
        ("oversold", outcome.oversold().to_string()),
        ("most_sold_unit", outcome.tally.most.to_string()),
        ("took_ms", outcome.took.as_millis().to_string()),
        ("served", figures.served.to_string()),
        ("refused", figures.refused.to_string()),
        ("served_per_s", outcome.rate().to_string()),
        ("wait_p50_us", figures.wait_p50.to_string()),
        ("wait_p99_us", figures.wait_p99.to_string()),
        ("held_p50_us", figures.held_p50.to_string()),
        ("renewals", figures.renewals.to_string()),
        ("stopped", figures.lost.to_string()),
        ("failed", figures.failed.to_string()),
        ("story", format!("[{}]", story.join(","))),
    ])
}

/// `fields` hold JSON already.
fn object(fields: &[(&str, String)]) -> String {
    let fields: Vec<String> = fields.iter().map(|(name, value)| text(name) + ":" + value).collect();
    format!("{{{}}}", fields.join(","))
}

fn text(value: &str) -> String {
    let mut json = String::with_capacity(value.len() + 2);
    json.push('"');
    for c in value.chars() {
        match c {
            '"' => json.push_str("\\\""),
            '\\' => json.push_str("\\\\"),
            c if c.is_control() => drop(write!(json, "\\u{:04x}", u32::from(c))),
            c => json.push(c),
        }
    }
    json.push('"');
    json
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::act::Act;
    use crate::database::Tally;
    use crate::outcome::tests::outcome;

    #[test]
    fn strings_are_escaped() {
        assert_eq!(text("a\"b\\c\nd"), r#""a\"b\\c\u000ad""#);
    }

    #[test]
    fn an_act_is_one_object() {
        let json = act(&outcome(Act::Hung, Tally { orders: 3, units: 3, left: 0, most: 1 }));
        assert!(json.starts_with(r#"{"act":4,"name":"hung-task","passed":true,"exact":true,"#));
        assert!(json.ends_with(r#""story":["0.001 s  p1 hangs & waits"]}"#), "{json}");
    }
}
