//! How much a test does: little in the suite, as much as teams want to see in `scripts/endure`.

/// The large figure if the environment variable `REDLOCK_FULL` is set, and else the small one.
pub fn full<T>(small: T, large: T) -> T {
    if std::env::var_os("REDLOCK_FULL").is_some() { large } else { small }
}

/// Prints what a test has counted, on a line that `scripts/endure` finds.
#[allow(clippy::print_stdout, reason = "what a script reads")]
pub fn counted(what: &str) {
    println!("counted: {what}");
}
