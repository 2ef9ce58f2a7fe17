//! What people see while the demo runs: bars in a terminal, lines everywhere.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::act::Act;
use crate::event::Event;
use crate::options::Options;
use crate::outcome::{Outcome, human};
use crate::server::Server;

const BAR_CELLS: usize = 8;
const MARGIN: usize = 24;

/// Results go to stdout, bars to stderr. Quiet for `--json`.
pub(crate) struct Screen {
    is_quiet: bool,
    paint: Paint,
    bar: Option<ProgressBar>,
    act: Act,
    /// Customers of each worker, and how many of them were served.
    shares: Vec<(u32, u32)>,
    sold: u32,
    is_titled: bool,
}

impl Screen {
    pub(crate) fn new(is_quiet: bool) -> Self {
        Self {
            is_quiet,
            paint: Paint::of_stdout(),
            bar: None,
            act: Act::Unlocked,
            shares: Vec::new(),
            sold: 0,
            is_titled: false,
        }
    }

    pub(crate) fn header(&self, server: &Server, options: &Options) {
        let title = self.paint.bold("redlock inventory demo");
        self.line(&format!("{title}  Redis: {}", server.describe()));
        self.line(&format!(
            "{:MARGIN$}{} {} x {} tasks sell {} units to {} customers; SQLite {}",
            "",
            options.procs,
            server.workers(),
            options.tasks,
            options.stock(),
            options.customers(),
            rusqlite::version(),
        ));
    }

    pub(crate) fn begin(&mut self, act: Act, options: &Options) {
        self.act = act;
        self.shares = (0..options.procs()).map(|proc| (options.share(proc), 0)).collect();
        self.sold = 0;
        self.is_titled = false;
        self.line("");
        if !self.is_quiet {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            if let Ok(style) = ProgressStyle::with_template("{msg}") {
                bar.set_style(style);
            }
            self.bar = Some(bar);
        }
        self.draw();
    }

    /// One more customer has an answer.
    pub(crate) fn count(&mut self, proc: usize, event: &Event) {
        if let Event::Served { seen, .. } = event {
            self.shares[proc].1 += 1;
            self.sold += u32::from(*seen > 0);
            self.draw();
        }
    }

    /// Something happened that is worth a line.
    pub(crate) fn note(&mut self, text: &str) {
        let text = self.paint.dim(text);
        self.titled(&text);
        self.draw();
    }

    pub(crate) fn end(&mut self, outcome: &Outcome) {
        let figures = outcome.figures();
        let verdict = match (outcome.is_exact(), outcome.oversold()) {
            (true, _) if outcome.is_complete => self.paint.green("exact"),
            (true, _) => self.paint.red("exact, but the accident did not happen"),
            (_, 0) => self.paint.red("not sold out"),
            (_, more) => {
                let most = outcome.tally.most;
                self.paint.red(&format!("OVERSOLD BY {more}, one unit {most} times"))
            }
        };
        let sold = format!("sold {} of {}", outcome.tally.orders, outcome.stock);
        let customers: u32 = self.shares.iter().map(|(share, _)| share).sum();
        let unserved = (customers as usize).saturating_sub(figures.served);
        let unserved = match unserved {
            0 => String::new(),
            some => format!(", {some} not served"),
        };
        self.titled(&format!("{sold:<17} {:>4} refused{unserved}   {verdict}", figures.refused));
        if let Some(text) = outcome.first_failure() {
            self.titled(&format!("{} customers got an error, the first: {text}", figures.failed));
        }
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    /// The figures of all acts.
    pub(crate) fn summary(&self, outcomes: &[Outcome]) {
        self.line("");
        let head = ["served/s", "wait p50", "p99", "held p50", "renewals", "stopped"];
        self.line(&self.paint.dim(&row("", &head.map(str::to_owned))));
        for outcome in outcomes {
            let figures = outcome.figures();
            let is_locked = outcome.act != Act::Unlocked;
            let of_lock = |text: String| if is_locked { text } else { "-".to_owned() };
            let cells = [
                outcome.rate().to_string(),
                of_lock(human(figures.wait_p50)),
                of_lock(human(figures.wait_p99)),
                human(figures.held_p50),
                of_lock(figures.renewals.to_string()),
                of_lock(figures.lost.to_string()),
            ];
            self.line(&row(outcome.act.title(), &cells));
        }
    }

    pub(crate) fn farewell(&self, outcomes: &[Outcome], report: &str, took: Duration) {
        let failed = outcomes.iter().filter(|outcome| !outcome.is_passed()).count();
        let verdict = match failed {
            0 => self.paint.green("all checks passed"),
            1 => self.paint.red("1 act failed"),
            more => self.paint.red(&format!("{more} acts failed")),
        };
        self.line("");
        self.line(&format!("{verdict} in {:.1} s; report: {report}", took.as_secs_f64()));
        let unlocked = outcomes.iter().find(|outcome| outcome.act == Act::Unlocked);
        if unlocked.is_some_and(Outcome::is_exact) {
            self.line("(act 1 was lucky: nothing was oversold; try more --procs or --tasks)");
        }
        self.line(&self.paint.dim(
            "Try: cargo run --example inventory -- --act 3 --procs 8     \
             REDIS_URL=redis://host cargo run --example inventory",
        ));
    }

    /// A line of the act; the first carries its title.
    fn titled(&mut self, text: &str) {
        let title = if std::mem::replace(&mut self.is_titled, true) {
            " ".repeat(MARGIN)
        } else {
            let title = format!("{}/5  {}", self.act.number(), self.act.title());
            self.paint.bold(&format!("{title:<MARGIN$}"))
        };
        self.line(&format!("{title}{text}"));
    }

    #[allow(clippy::print_stdout, reason = "results of a program belong on stdout")]
    fn line(&self, text: &str) {
        if self.is_quiet {
            return;
        }
        match &self.bar {
            Some(bar) => bar.suspend(|| println!("{text}")),
            None => println!("{text}"),
        }
    }

    fn draw(&self) {
        let Some(bar) = &self.bar else { return };
        let title = if self.is_titled {
            String::new()
        } else {
            format!("{}/5  {}", self.act.number(), self.act.title())
        };
        bar.set_message(format!("{title:<MARGIN$}{}", bars(&self.shares, self.sold)));
        bar.tick();
    }
}

/// `p0 ######.. p1 ####....  sold 123`
fn bars(shares: &[(u32, u32)], sold: u32) -> String {
    let cell = |(proc, (share, served)): (usize, &(u32, u32))| {
        let full = (BAR_CELLS * *served as usize).checked_div(*share as usize).unwrap_or(BAR_CELLS);
        let full = full.min(BAR_CELLS);
        format!("p{proc} {}{} ", "█".repeat(full), "░".repeat(BAR_CELLS - full))
    };
    // As many as fit beside the title in 80 columns.
    let shown: String = shares.iter().enumerate().take(4).map(cell).collect();
    format!("{shown} sold {sold}")
}

fn row(title: &str, cells: &[String; 6]) -> String {
    let [rate, p50, p99, held, renewals, lost] = cells;
    format!("     {title:<20} {rate:>8}  {p50:>9} {p99:>9}  {held:>9}  {renewals:>9}  {lost:>8}")
}

/// Colours, where they are wanted.
struct Paint {
    is_on: bool,
}

impl Paint {
    fn of_stdout() -> Self {
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        let is_on = std::io::stdout().is_terminal() && !is_set("NO_COLOR") && !is_dumb;
        Self { is_on }
    }

    fn with(&self, code: &str, text: &str) -> String {
        if self.is_on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    fn bold(&self, text: &str) -> String {
        self.with("1", text)
    }

    fn dim(&self, text: &str) -> String {
        self.with("2", text)
    }

    fn green(&self, text: &str) -> String {
        self.with("1;32", text)
    }

    fn red(&self, text: &str) -> String {
        self.with("1;31", text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_fill_up_and_never_overflow() {
        assert_eq!(bars(&[(10, 5), (0, 0)], 3), "p0 ████░░░░ p1 ████████  sold 3");
        assert!(bars(&[(10, 99)], 3).contains("p0 ████████ "));
    }

    #[test]
    fn colours_can_be_off() {
        assert_eq!(Paint { is_on: false }.red("x"), "x");
        assert_eq!(Paint { is_on: true }.red("x"), "\x1b[1;31mx\x1b[0m");
    }
}
