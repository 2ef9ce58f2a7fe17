//! What is added to the root of the runtime: which mutant lives is said by the environment.

/// Behind this line is what was added.
pub const MARK: &str = "\n// Added for mutants.\n";

/// The number of the mutant that lives. None does without it.
pub const CHOSEN: &str = "REDLOCK_MUTANT";

/// A file that gets a line with the number of each mutant that was reached.
pub const REACHED: &str = "REDLOCK_MUTANTS_REACHED";

/// `mutant(number)`, for `count` mutants.
pub fn source(count: usize) -> String {
    format!(
        r#"
pub(crate) fn mutant(number: usize) -> bool {{
    use std::sync::LazyLock;
    use std::sync::atomic::{{AtomicBool, Ordering}};
    static CHOSEN: LazyLock<Option<usize>> =
        LazyLock::new(|| std::env::var("{CHOSEN}").ok()?.parse().ok());
    static REACHED: LazyLock<Option<std::ffi::OsString>> =
        LazyLock::new(|| std::env::var_os("{REACHED}"));
    static SEEN: [AtomicBool; {count}] = [const {{ AtomicBool::new(false) }}; {count}];
    if let Some(path) = &*REACHED
        && !SEEN[number].swap(true, Ordering::Relaxed)
    {{
        use std::io::Write;
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        let _ = file.and_then(|mut file| file.write_all(format!("{{number}}\n").as_bytes()));
    }}
    *CHOSEN == Some(number)
}}
"#
    )
}
