//! Colours of the processes, and text in markup.

/// Told apart by people with the common colour deficiencies too (after Okabe and Ito).
const COLOURS: [&str; 8] =
    ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#7a6a00", "#6a51a3"];

pub(super) const ALARM: &str = "#c62828";

/// The colour of a process.
pub(super) fn colour(proc: usize) -> &'static str {
    COLOURS[proc % COLOURS.len()]
}

pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
