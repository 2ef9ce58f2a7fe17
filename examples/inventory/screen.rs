//! What people see while the demo runs: a bar in a terminal, lines everywhere.

use std::io::Write;
use std::time::Duration;

use console::{StyledObject, style};
use indicatif::{ProgressBar, ProgressStyle};

use crate::act::Act;
use crate::options::Options;
use crate::play::Outcome;
use crate::server::Server;

/// Results go to stdout, the bar to stderr. Quiet for `--json`.
pub(crate) struct Screen {
    is_quiet: bool,
    bar: ProgressBar,
}

impl Screen {
    pub(crate) fn new(is_quiet: bool) -> Self {
        Self { is_quiet, bar: ProgressBar::hidden() }
    }

    pub(crate) fn header(&self, server: &Server, options: &Options) {
        self.line(&style("redlock inventory demo").bold().to_string());
        self.note(&format!("Redis: {}", server.description));
        let workers = if server.url.is_some() { "processes" } else { "groups" };
        let workers = format!("{} {workers} x {} tasks", options.procs, options.tasks);
        let (stock, customers) = (options.stock(), options.customers());
        self.note(&format!("{workers} sell {stock} units to {customers} customers"));
    }

    pub(crate) fn begin(&mut self, act: &Act, options: &Options) {
        let title = format!("\n{}/6  {}", act.number, act.title);
        self.line(&style(title).bold().to_string());
        if !self.is_quiet {
            self.bar = ProgressBar::new(options.customers().into());
            let plain = ProgressStyle::with_template("     {wide_bar} {pos} of {len} served");
            self.bar.set_style(plain.unwrap_or_else(|_| ProgressStyle::default_bar()));
        }
    }

    pub(crate) fn count(&self) {
        self.bar.inc(1);
    }

    pub(crate) fn note(&self, text: &str) {
        self.line(&format!("     {}", style(text).dim()));
    }

    pub(crate) fn end(&self, act: &Act, outcome: &Outcome, options: &Options) {
        self.bar.finish_and_clear();
        match act.moves {
            Some(_) => self.moved(outcome, options),
            None => self.sold(outcome, options),
        }
        if let Some(first) = outcome.failures.first() {
            self.note(&format!("errors: {}, the first: {first}", outcome.failures.len()));
        }
    }

    fn moved(&self, outcome: &Outcome, options: &Options) {
        let (left, stock) = (outcome.tally.left, options.stock());
        let verdict = match outcome.tally.adrift(stock) {
            0 => verdict(true, "exact"),
            lost @ ..0 => verdict(false, &format!("{} UNITS LOST", -lost)),
            more => verdict(false, &format!("{more} UNITS FROM NOWHERE")),
        };
        let moves = outcome.served - outcome.refused;
        self.line(&format!(
            "     {moves} moves; {left} of {stock} units on both shelves: {verdict}"
        ));
    }

    fn sold(&self, outcome: &Outcome, options: &Options) {
        let most = outcome.tally.most_sold_unit;
        let verdict = match outcome.oversold {
            _ if outcome.exact && outcome.resolved => verdict(true, "exact"),
            _ if outcome.exact => verdict(false, "exact, but the accident did not happen"),
            0 => verdict(false, "not sold out"),
            more => verdict(false, &format!("OVERSOLD BY {more}, one unit {most} times")),
        };
        let unserved = (options.customers() as usize).saturating_sub(outcome.served);
        let sold = format!("sold {} of {}", outcome.tally.orders, options.stock());
        let others = format!("{} came too late, {unserved} were not served", outcome.refused);
        self.line(&format!("     {sold}; {others}: {verdict}"));
    }

    /// The figures of all acts, and the verdict.
    pub(crate) fn summary(&self, outcomes: &[Outcome], took: Duration) {
        self.line("");
        self.note(&format!(
            "{:15}{:>9}{:>10}{:>10}{:>9}",
            "", "served", "wait p50", "p99", "stopped"
        ));
        for Outcome { title, served, wait_p50, wait_p99, stopped, .. } in outcomes {
            let waits = format!("{wait_p50:>10.1?}{wait_p99:>10.1?}");
            self.line(&format!("     {title:15}{served:>9}{waits}{stopped:>9}"));
        }
        let verdict = match outcomes.iter().filter(|outcome| !outcome.passed).count() {
            0 => verdict(true, "all checks passed"),
            failed => verdict(false, &format!("{failed} of the acts failed")),
        };
        self.line(&format!("\n{verdict} in {:.1} s", took.as_secs_f64()));
        if outcomes.iter().any(|outcome| outcome.act == 1 && outcome.exact) {
            self.line("(act 1 was lucky: nothing was oversold; try more --procs or --tasks)");
        }
        self.line("Try: cargo run --example inventory -- --act 3 --procs 8; or --help");
    }

    fn line(&self, text: &str) {
        if !self.is_quiet {
            self.bar.suspend(|| print(text));
        }
    }
}

fn verdict(is_good: bool, text: &str) -> StyledObject<String> {
    let text = style(text.to_owned()).bold();
    if is_good { text.green() } else { text.red() }
}

/// Goes on without a reader: `| head` is not an error.
pub(crate) fn print(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}
