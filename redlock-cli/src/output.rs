//! What is printed: data on stdout, everything else on stderr.

use std::borrow::Cow;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use serde_json::Value;

/// For how long stderr may stand still before a message is given up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);
/// A pipe that is ready takes so many bytes at once.
const AT_ONCE: usize = if cfg!(target_os = "linux") { 4096 } else { 512 };

/// A line about a problem, or some, on stderr. Text from Redis may be in it.
#[allow(clippy::let_underscore_must_use, reason = "there is nowhere else to say it")]
pub(crate) fn complain(message: &str) {
    let _ = write_stderr(&complaint(message));
}

/// The same where this process handles signals, or its end is waited for: the message is given up
/// if the reader of stderr stands still, as nothing but SIGKILL would end a write that blocks.
pub(crate) fn complain_if_read(message: &str) {
    for part in complaint(message).as_bytes().chunks(AT_ONCE) {
        if !is_stderr_ready(PATIENCE) || io::stderr().write_all(part).is_err() {
            return;
        }
    }
}

fn complaint(message: &str) -> String {
    let lines: Vec<String> = message.split('\n').map(plain).collect();
    format!("redlock: {}\n", lines.join("\n"))
}

/// Text on stderr with one write, so that it stays whole in a log that several processes share.
pub(crate) fn write_stderr(text: &str) -> io::Result<()> {
    io::stderr().write_all(text.as_bytes())
}

/// Would stderr take a message? The reader of a pipe may stand still, or a terminal be stopped
/// (Ctrl-S). Waits for that `within` this time.
pub(crate) fn is_stderr_ready(within: Duration) -> bool {
    let (stderr, begun) = (io::stderr(), Instant::now());
    loop {
        let mut asked = [PollFd::new(&stderr, PollFlags::OUT)];
        let left = Timespec::try_from(within.saturating_sub(begun.elapsed()));
        let left = left.unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
        match poll(&mut asked, Some(&left)) {
            // A signal says nothing about stderr.
            Err(Errno::INTR) => {}
            Ok(_) => return !asked[0].revents().is_empty(),
            // If stderr cannot be asked, it counts as ready.
            Err(_) => return true,
        }
    }
}

/// Text on stdout, at once.
pub(crate) fn say(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// An error if the reader of stdout has gone, as it would come with the next text.
pub(crate) fn check_reader() -> io::Result<()> {
    check_other_end(io::stdout())
}

/// An error if a terminal was closed, or a pipe at its other end.
pub(crate) fn check_other_end(stream: impl AsFd) -> io::Result<()> {
    // No event is asked for: the system reports errors in any case.
    let mut asked = [PollFd::new(&stream, PollFlags::empty())];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let is_told = poll(&mut asked, Some(&at_once)).is_ok();
    if is_told && asked[0].revents().intersects(PollFlags::ERR | PollFlags::HUP) {
        return Err(ErrorKind::BrokenPipe.into());
    }
    Ok(())
}

/// Letters that are blank.
const BLANK: [char; 5] = ['\u{115f}', '\u{1160}', '\u{2800}', '\u{3164}', '\u{ffa0}'];

/// Text from Redis, which may be anything, for a terminal: without characters that control it, or
/// that nobody sees, as those that turn the direction of what follows.
pub(crate) fn plain(text: &str) -> String {
    let is_shown = |c: char| matches!(c, '"' | '\'' | '\\') || is_visible(c);
    if text.chars().all(is_shown) {
        return text.to_owned();
    }
    let mut shown = String::new();
    for c in text.escape_debug() {
        if BLANK.contains(&c) { shown.extend(c.escape_unicode()) } else { shown.push(c) }
    }
    shown
}

/// One line of JSON, which a terminal may show: what `plain` escapes is escaped as well, as JSON
/// does that, so that it is the same value.
pub(crate) fn json_line(value: &Value) -> String {
    let mut line = String::new();
    for c in value.to_string().chars() {
        // JSON has escaped what ASCII has below the space.
        if is_visible(c) || c.is_ascii() && !c.is_ascii_control() {
            line.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let escaped = format!("\\u{unit:04x}");
                line.push_str(&escaped);
            }
        }
    }
    line.push('\n');
    line
}

fn is_visible(c: char) -> bool {
    c.escape_debug().len() == 1 && !BLANK.contains(&c)
}

/// Colours, where people look.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paint {
    is_on: bool,
}

impl Paint {
    /// On a terminal, unless `NO_COLOR` is set.
    pub(crate) fn for_stdout() -> Self {
        let is_unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|name| name == "dumb");
        Self { is_on: io::stdout().is_terminal() && !is_unwanted && !is_dumb }
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    pub(crate) fn faint(self, text: &str) -> String {
        self.with("2", text)
    }

    pub(crate) fn red(self, text: &str) -> String {
        self.with("31", text)
    }

    pub(crate) fn green(self, text: &str) -> String {
        self.with("32", text)
    }

    pub(crate) fn yellow(self, text: &str) -> String {
        self.with("33", text)
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.is_on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// A column is padded to this width at most, and what stands in it is cut there, except in the
/// first one, which names a lock. Anything may stand in a lock: a cell can be as large as a value
/// of Redis.
const WIDEST: usize = 200;

/// Lines with aligned columns; the last one is not padded. The first row is the heading.
pub(crate) fn table(paint: Paint, rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let length = |row: &Vec<String>, column: usize| row[column].chars().take(WIDEST).count();
    let width = |column: usize| rows.iter().map(|row| length(row, column)).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for (number, row) in rows.iter().enumerate() {
        let cells = row.iter().zip(&widths).enumerate();
        let cells = cells.map(|(column, (cell, width))| {
            let cell = if column == 0 { cell.into() } else { cut(cell) };
            format!("{cell:width$}")
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        let line = line.trim_end();
        text += &if number == 0 { paint.bold(line) } else { line.to_owned() };
        text.push('\n');
    }
    text
}

fn cut(cell: &str) -> Cow<'_, str> {
    match cell.char_indices().nth(WIDEST) {
        None => cell.into(),
        Some(_) => cell.chars().take(WIDEST - 1).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_wide_is_cut_and_makes_no_other_row_wide() {
        let row = |key: &str, holder: &str| [key, holder, "1 s"].map(str::to_owned).to_vec();
        let (key, value) = ("k".repeat(70_000), "ä".repeat(70_000));
        let shown = table(Paint { is_on: false }, &[row("KEY", "HELD BY"), row(&key, &value)]);
        let lines: Vec<_> = shown.lines().collect();
        assert!(lines[0].len() < 3 * WIDEST, "{}", lines[0].len());
        assert!(lines[1].starts_with(&key) && lines[1].ends_with("ä…  1 s"));
        assert!(lines[1].chars().count() < key.len() + 2 * WIDEST);
    }

    #[test]
    fn columns_are_aligned() {
        let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        let shown =
            table(Paint { is_on: false }, &[row(["KEY", "HELD BY"]), row(["stock-42", "a"])]);
        assert_eq!(shown, "KEY       HELD BY\nstock-42  a\n");
    }

    #[test]
    fn a_key_cannot_send_commands_to_the_terminal() {
        assert_eq!(plain("a\x1b[2Jb\n"), "a\\u{1b}[2Jb\\n");
        assert_eq!(plain("stock-\u{e9}"), "stock-\u{e9}");
        assert_eq!(plain("a\u{202e}b\u{200b}"), "a\\u{202e}b\\u{200b}");
        assert_eq!(plain("`it's` \"\\\""), "`it's` \"\\\"", "what a message has is no command");
        assert_eq!(plain("stock-1\u{3164}"), "stock-1\\u{3164}", "it is not stock-1");
    }

    #[test]
    fn json_is_the_same_value_without_commands_to_the_terminal() {
        let text = "\x7f\u{9b}31m\u{202e}\u{2028}\u{e0001}\u{3164} \u{e9}\"\\\n";
        let value = serde_json::json!({ "owner": text, text: [1] });
        let line = json_line(&value);
        assert!(line.ends_with("}\n") && line.contains('\u{e9}'), "{line}");
        assert!(line.trim_end().chars().all(is_visible_or_quote), "{line}");
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), value);
    }

    fn is_visible_or_quote(c: char) -> bool {
        matches!(c, '"' | '\'' | '\\') || is_visible(c)
    }
}
