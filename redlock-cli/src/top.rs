//! `redlock top`: the locks that are held, live.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Row, Table};

use crate::args::TopArgs;
use crate::duration;
use crate::ending::End;
use crate::failure::Failure;
use crate::holder::Holder;
use crate::ls::time_left;
use crate::output::{check_other_end, plain};
use crate::servers::Servers;
use crate::signals::Signals;
use crate::survey::Survey;

/// How soon a key on the keyboard is noticed.
const KEYBOARD: Duration = Duration::from_millis(50);
const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);

pub(crate) async fn top(args: &TopArgs, servers: &Servers) -> Result<End, Failure> {
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return Err(Failure::usage("top needs a terminal; `redlock ls --json` is for programs"));
    }
    if args.interval < SHORTEST_INTERVAL {
        return Err(Failure::usage("--interval is too short; 100ms is the shortest"));
    }
    let mut survey = Survey::of_servers(servers)?;
    // The first look comes before the screen is taken, so that its error can be read.
    let mut board = Board::default();
    board.update(&survey.list(&args.pattern).await?, Instant::now());
    // From here on a signal must not end this process before the screen is given back.
    let mut signals = Signals::that_end()?;
    let mut terminal = ratatui::try_init()?;
    let ended = show(&mut terminal, &mut survey, &mut board, &mut signals, args).await;
    let restored = ratatui::try_restore();
    if restored.is_err() {
        // The terminal is gone. The drop would panic, as there is no stderr to say so on.
        std::mem::forget(terminal);
    }
    let end = ended?;
    if matches!(end, End::Code(_)) {
        restored?;
    }
    Ok(end)
}

/// Goes on until a person or a signal ends it.
async fn show(
    terminal: &mut DefaultTerminal,
    survey: &mut Survey<'_>,
    board: &mut Board,
    signals: &mut Signals,
    args: &TopArgs,
) -> Result<End, Failure> {
    loop {
        board.draw(terminal, args)?;
        let pause = Instant::now() + args.interval;
        let mut looking = std::pin::pin!(async {
            tokio::time::sleep_until(pause.into()).await;
            survey.list_quietly(&args.pattern).await
        });
        let seen = loop {
            tokio::select! {
                biased;
                signal = signals.next() => return Ok(End::Signal(signal)),
                seen = &mut looking => break seen,
                () = tokio::time::sleep(KEYBOARD) => match pressed()? {
                    Pressed::Quit => return Ok(End::Code(0)),
                    Pressed::Redraw => board.draw(terminal, args)?,
                    Pressed::Nothing => {}
                },
            }
        };
        match seen {
            Ok((locks, notes)) => {
                board.update(&locks, Instant::now());
                board.error = notes.into_iter().next();
            }
            Err(error) => board.error = Some(error.message),
        }
    }
}

enum Pressed {
    Quit,
    Redraw,
    Nothing,
}

fn pressed() -> io::Result<Pressed> {
    // The next call would read from a terminal that is gone again and again.
    check_other_end(io::stdin())?;
    let mut found = Pressed::Nothing;
    while event::poll(Duration::ZERO)? {
        match event::read()? {
            Event::Key(key) if key.kind != KeyEventKind::Release => {
                let is_interrupt = key.modifiers.contains(KeyModifiers::CONTROL)
                    && matches!(key.code, KeyCode::Char('c' | 'd'));
                if is_interrupt || matches!(key.code, KeyCode::Char('q' | 'Q') | KeyCode::Esc) {
                    return Ok(Pressed::Quit);
                }
            }
            Event::Resize(..) => found = Pressed::Redraw,
            _ => {}
        }
    }
    Ok(found)
}

/// What has been seen of the locks.
#[derive(Debug, Default)]
struct Board {
    locks: BTreeMap<String, Seen>,
    error: Option<String>,
}

#[derive(Debug, Clone)]
struct Seen {
    holder: Holder,
    /// Since when this owner has the lock, and since when somebody waits, as far as was seen.
    held_since: Instant,
    waited_since: Option<Instant>,
    /// How often the lock has changed hands.
    changes: u64,
}

impl Board {
    fn update(&mut self, locks: &BTreeMap<String, Holder>, now: Instant) {
        self.error = None;
        self.locks.retain(|key, _| locks.contains_key(key));
        for (key, holder) in locks {
            let fresh =
                || Seen { holder: holder.clone(), held_since: now, waited_since: None, changes: 0 };
            let seen = self.locks.entry(key.clone()).or_insert_with(fresh);
            if seen.holder.value.hold() != holder.value.hold() {
                seen.held_since = now;
                seen.changes += 1;
            }
            let waits = holder.waiting.is_some_and(|waiting| waiting > 0);
            seen.waited_since = waits.then(|| seen.waited_since.unwrap_or(now));
            seen.holder = holder.clone();
        }
    }

    /// The hottest first: with the longest queue, then with the most changes.
    fn sorted(&self) -> Vec<(&String, &Seen)> {
        let mut locks: Vec<_> = self.locks.iter().collect();
        let heat = |seen: &Seen| (seen.holder.waiting, seen.changes);
        locks.sort_by_key(|(_, seen)| Reverse(heat(seen)));
        locks
    }

    fn rows(&self, now: Instant) -> Vec<[String; 7]> {
        let since = |begin: Instant| duration::show(now.saturating_duration_since(begin));
        let row = |(key, seen): (&String, &Seen)| {
            [
                plain(key),
                plain(&seen.holder.shown()),
                since(seen.held_since),
                time_left(&seen.holder),
                seen.holder.shown_waiting(),
                seen.waited_since.map(since).unwrap_or_default(),
                seen.changes.to_string(),
            ]
        };
        self.sorted().into_iter().map(row).collect()
    }

    fn draw(&self, terminal: &mut DefaultTerminal, args: &TopArgs) -> io::Result<()> {
        const HEADING: [&str; 7] =
            ["KEY", "HELD BY", "HELD FOR", "LEFT", "WAITING", "QUEUE SINCE", "CHANGES"];
        let rows = self.rows(Instant::now());
        let waiting: usize = self.locks.values().filter_map(|seen| seen.holder.waiting).sum();
        let summary = format!(
            "redlock top  {}  held: {}  waiting: {waiting}  every {}  q quits",
            plain(&args.pattern),
            rows.len(),
            duration::show(args.interval)
        );
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let error = self.error.clone().unwrap_or_default();
        let color = |style: Style, color| if has_colors() { style.fg(color) } else { style };
        terminal.draw(|frame| {
            let [top, bottom, body] = Layout::vertical([
                Constraint::Length(1),
                Constraint::Length(1),
                Constraint::Fill(1),
            ])
            .areas(frame.area());
            frame.render_widget(Line::styled(summary, color(bold, Color::Cyan)), top);
            frame.render_widget(Line::styled(error, color(Style::new(), Color::Red)), bottom);
            let widths = [
                Constraint::Fill(3),
                Constraint::Fill(3),
                Constraint::Length(11),
                Constraint::Length(11),
                Constraint::Length(7),
                Constraint::Length(11),
                Constraint::Length(7),
            ];
            let rows = rows.into_iter().map(|row| {
                let hot = !matches!(&*row[4], "0" | "?");
                let style = Style::new();
                Row::new(row).style(if hot { color(style, Color::Yellow) } else { style })
            });
            let heading = Row::new(HEADING).style(bold);
            frame.render_widget(Table::new(rows, widths).header(heading), body);
        })?;
        Ok(())
    }
}

fn has_colors() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(value: &str, waiting: usize) -> Holder {
        let left = Some(Duration::from_secs(9));
        Holder {
            value: value.into(),
            owners: Vec::new(),
            left,
            votes: 1,
            of: 1,
            unanswered: 0,
            waiting: Some(waiting),
        }
    }

    #[test]
    fn the_hottest_lock_comes_first_and_times_count_from_the_first_look() {
        let start = Instant::now();
        let second = |n| start + Duration::from_secs(n);
        let mut board = Board::default();
        let mut locks = BTreeMap::from([("a".into(), held("x", 0)), ("b".into(), held("y", 0))]);
        board.update(&locks, start);
        locks.insert("b".to_owned(), held("z", 2));
        board.update(&locks, second(5));
        let rows = board.rows(second(7));
        assert_eq!(rows[0][..3], ["b", "z", "2.0 s"]);
        assert_eq!(rows[0][4..], ["2", "2.0 s", "1"]);
        assert_eq!(rows[1][..3], ["a", "x", "7.0 s"]);
        locks.remove("b");
        board.update(&locks, second(8));
        assert_eq!(board.rows(second(8)).len(), 1);
    }
}
