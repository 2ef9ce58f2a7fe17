//! The mutants, as cargo-mutants lists them.

use std::path::Path;
use std::process::Command;

use serde::Deserialize;

use crate::text::Place;

#[derive(Debug, Clone, Deserialize)]
pub struct Mutant {
    pub file: String,
    pub genre: Genre,
    pub name: String,
    pub replacement: String,
    pub span: Range,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum Genre {
    FnValue,
    BinaryOperator,
    UnaryOperator,
    MatchArm,
    MatchArmGuard,
    StructField,
}

/// Lines and columns from one, the end exclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Range {
    pub start: Place,
    pub end: Place,
}

/// Those in the files below `redlock-runtime/src` that match one of `files`.
pub fn mutants(root: &Path, files: &[String]) -> Vec<Mutant> {
    let mut command = Command::new("cargo");
    command.current_dir(root).args(["mutants", "--list", "--json", "-p", "redlock-runtime"]);
    for file in files {
        command.args(["--file", &format!("redlock-runtime/src/{file}")]);
    }
    let output = command.output().expect("cargo runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo mutants (cargo install cargo-mutants): {said}");
    let mutants: Vec<Mutant> =
        serde_json::from_slice(&output.stdout).expect("a list of cargo-mutants");
    assert!(!mutants.is_empty(), "no mutants in {files:?}");
    mutants
}
