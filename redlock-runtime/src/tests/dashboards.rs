//! The alerts and the dashboard in `contrib` name the metrics that the exporter shows, and all of
//! them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusBuilder;

use crate::backend::Cause;
use crate::kind::Kind;
use crate::state::LostReason;
use crate::telemetry::{self, CountedCall, LockLabels};

const RULES: &str = include_str!("../../../contrib/prometheus/redlock.rules.yml");
const DASHBOARD: &str = include_str!("../../../contrib/grafana/redlock.json");
const DOCS: &str = include_str!("../../../docs/observability.md");

/// What the exporter shows after everything of `telemetry` was counted once, with buckets as the
/// docs recommend them.
fn exported() -> String {
    let buckets: Vec<f64> = (0..11).map(|n| 0.0001 * 4_f64.powi(n)).collect();
    let builder = PrometheusBuilder::new().set_buckets(&buckets).unwrap();
    let recorder = builder.build_recorder();
    let handle = recorder.handle();
    metrics::with_local_recorder(&recorder, || {
        let of = LockLabels { template: "t", kind: Kind::Read };
        telemetry::describe();
        CountedCall::begin(of, "timeout").end(Ok(Duration::ZERO));
        telemetry::acquire_sent("t");
        telemetry::held(of);
        telemetry::ended(of, Duration::ZERO);
        telemetry::lost(of, LostReason::Expired);
        telemetry::renewal("t", true);
        telemetry::renewal_lag(Duration::ZERO);
        telemetry::unprotected("t");
        telemetry::NodeGauge::new("n").note_answers();
        telemetry::node_doubted("n", "restarted");
    });
    handle.render()
}

/// The series of a scrape, and the labels of each.
fn series(scrape: &str) -> BTreeMap<String, BTreeSet<String>> {
    let lines = scrape.lines().filter(|line| line.starts_with("redlock_"));
    let mut found = BTreeMap::<String, BTreeSet<String>>::new();
    for line in lines {
        let (name, rest) = line.split_once(['{', ' ']).unwrap();
        let labels = rest.split_once('}').map_or("", |(labels, _)| labels);
        let labels = labels.split(',').filter_map(|label| label.split_once('='));
        let names = labels.map(|(name, _)| name.to_owned());
        found.entry(name.to_owned()).or_default().extend(names);
    }
    found
}

/// Every `redlock_..` in a text.
fn named(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("redlock_")).map(str::to_owned).collect()
}

/// The metric to which a series belongs.
fn base(series: &str) -> &str {
    let parts = ["_bucket", "_sum", "_count"];
    parts.iter().find_map(|part| series.strip_suffix(part)).unwrap_or(series)
}

#[test]
fn alerts_and_panels_use_series_that_exist() {
    let shown = series(&exported());
    for (file, text) in [("rules", RULES), ("dashboard", DASHBOARD)] {
        let used = named(text);
        assert!(used.len() > 5, "{used:?}");
        for name in &used {
            // A text may name a histogram as a whole.
            let is_there =
                shown.contains_key(name) || shown.keys().any(|known| base(known) == name);
            assert!(is_there, "{file}: {name} is not among {:?}", shown.keys());
        }
    }
}

#[test]
fn the_dashboard_and_the_docs_show_every_metric() {
    let bases = |names: BTreeSet<String>| -> BTreeSet<String> {
        names.iter().map(|name| base(name).to_owned()).collect()
    };
    let all = bases(series(&exported()).into_keys().collect());
    assert_eq!(bases(named(DASHBOARD)), all);
    let rows: String = DOCS.lines().filter(|line| line.starts_with("| `redlock_")).collect();
    assert_eq!(bases(named(&rows)), all);
}

/// A counter that comes with its first event, at 1, has not grown: `increase()` would miss it.
#[test]
fn what_alerts_count_is_shown_before_it_happens() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let of = LockLabels { template: "t", kind: Kind::Exclusive };
    metrics::with_local_recorder(&recorder, || {
        // A call that its caller drops.
        drop(CountedCall::begin(of, "timeout"));
        telemetry::NodeGauge::new("n").note_answers();
    });
    let shown = recorder.handle().render();
    let expect = |metric: &str, value: &str| {
        let mut lines = shown.lines().filter(|line| line.starts_with(metric));
        assert!(lines.any(|line| line.contains(value)), "{metric} {value} in {shown}");
    };
    let mut counters = 0;
    for use_of in RULES.split("(redlock_").skip(1) {
        let (name, rest) = use_of.split_once(['{', '[', ')']).unwrap();
        let name = format!("redlock_{name}");
        if !name.ends_with("_total") {
            continue;
        }
        counters += 1;
        let matcher = rest.split_once(']').unwrap().0.split_once('"');
        let values = matcher.map_or("", |(_, values)| values.split_once('"').unwrap().0);
        for value in values.split('|') {
            let value = if value.is_empty() { String::new() } else { format!("\"{value}\"") };
            expect(&name, &value);
        }
    }
    assert!(counters > 6, "{counters}");
    let reasons = ["renewal_limit", "expired", "stolen", "unreachable"];
    for reason in reasons {
        let labels = format!("template=\"t\",kind=\"write\",reason=\"{reason}\"");
        expect(&format!("redlock_lost_total{{{labels}}} 0"), "");
    }
    let doubts = [Cause::Restarted, Cause::Replaced, Cause::ClockJumped(1), Cause::ClockDiffers(1)];
    for cause in doubts {
        let labels = format!("node=\"n\",cause=\"{}\"", cause.label());
        expect(&format!("redlock_node_doubts_total{{{labels}}} 0"), "");
    }
}

/// A rate is above zero for as long as its window after one event: an alert that waits for less
/// would fire for a single call.
#[test]
fn an_alert_that_waits_does_so_for_longer_than_one_event_shows() {
    fn seconds(time: &str) -> u64 {
        let (number, unit) = time.split_at(time.len() - 1);
        number.parse::<u64>().unwrap() * if unit == "m" { 60 } else { 1 }
    }
    let mut checked = 0;
    for rule in RULES.split("- alert: ").skip(1) {
        let (expr, rest) = rule.split_once("labels:").unwrap().0.split_once("for: ").unzip();
        let Some((expr, wait)) = expr.zip(rest).filter(|(expr, _)| expr.trim().ends_with("> 0"))
        else {
            continue;
        };
        let window = expr.split_once('[').unwrap().1.split_once(']').unwrap().0;
        assert!(seconds(wait.trim()) >= seconds(window), "{rule}");
        checked += 1;
    }
    assert_eq!(checked, 1, "of these there is one");
}

/// A label, or a value of one, that no series has would make an alert that never fires.
#[test]
fn alerts_and_panels_use_labels_that_exist() {
    let shown = series(&exported());
    let known: BTreeSet<&str> = shown.values().flatten().map(String::as_str).collect();
    let of_scrapes = ["job", "instance", "le"];
    for text in [RULES, DASHBOARD] {
        for by in text.split("by (").skip(1) {
            let labels = by.split_once(')').unwrap().0.split(',').map(str::trim);
            for label in labels {
                assert!(known.contains(label) || of_scrapes.contains(&label), "{label}");
            }
        }
    }
    for matcher in RULES.replace("=~\"", "=\"").split("=\"").skip(1) {
        let (values, _) = matcher.split_once('"').unwrap();
        for value in values.split('|') {
            assert!(DOCS.contains(&format!("`{value}`")), "{value} is no documented value");
        }
    }
}
