//! What the attribute adds to `cargo check`: 500 functions with ours, with `tracing::instrument`,
//! and bare. The three differ in nothing else; their dependencies have been checked before.

use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use super::figures::Figures;
use super::lab::Lab;
use super::usage::user_s_of_children;
use crate::Failure;

const FUNCTIONS: u32 = 500;

const ATTRIBUTES: [(&str, &str); 3] = [
    ("plain", ""),
    ("instrument", "#[tracing::instrument]\n"),
    ("redlock", "#[redlock::redis_lock(key = \"stock-<id>\", expire = \"10s\")]\n"),
];

pub fn measure(lab: &Lab) -> Result<Figures, Failure> {
    let mut figures = Figures::new();
    for (name, attribute) in ATTRIBUTES {
        let place = lab.target.join("compile-time").join(name);
        write(&lab.root, &place, attribute)?;
        // What others need is compiled the first time.
        check(&place)?;
        std::fs::write(place.join("src/lib.rs"), program(attribute) + "// again\n")?;
        let before = user_s_of_children().ok_or("no /proc: times of children are unknown")?;
        check(&place)?;
        let after = user_s_of_children().ok_or("no /proc")?;
        figures.insert(format!("{name}_user_s"), after - before);
    }
    Ok(figures)
}

fn write(root: &Path, place: &Path, attribute: &str) -> Result<(), Failure> {
    std::fs::create_dir_all(place.join("src"))?;
    let runtime = root.join("redlock-runtime");
    let runtime = runtime.display();
    let manifest = format!(
        "[package]\nname = \"compile-time\"\nedition = \"2024\"\n[workspace]\n[dependencies]\n\
         redlock = {{ path = \"{runtime}\", package = \"redlock-runtime\" }}\n\
         tracing = \"0.1.44\"\n"
    );
    std::fs::write(place.join("Cargo.toml"), manifest)?;
    std::fs::copy(root.join("bench/Cargo.lock"), place.join("Cargo.lock"))?;
    Ok(std::fs::write(place.join("src/lib.rs"), program(attribute))?)
}

fn program(attribute: &str) -> String {
    let mut text = String::from(
        "pub async fn io(n: u32) -> u32 { n }\n\
         pub type Answer = Result<u32, redlock::LockError>;\n",
    );
    for n in 0..FUNCTIONS {
        let _ = writeln!(
            text,
            "{attribute}pub async fn deduct_{n}(id: u64, count: u32) -> Answer {{\n    \
             let left = io(count).await;\n    Ok(left + u32::from(id == {n}))\n}}"
        );
    }
    text
}

fn check(place: &Path) -> Result<(), Failure> {
    let status = Command::new("cargo")
        .args(["check", "--quiet"])
        .current_dir(place)
        .env("CARGO_TARGET_DIR", place.with_file_name("target"))
        .env("CARGO_INCREMENTAL", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    if status.success() { Ok(()) } else { Err("cargo check failed".into()) }
}
