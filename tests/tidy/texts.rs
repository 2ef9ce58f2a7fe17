//! Scripts with headers, no paths of one machine, a README that shows code and the true command.

use crate::tree::{self, Source};
use crate::{assert_none, assert_one};

/// Written in two parts, or this file would be its own violation.
const MACHINE_PATHS: &[&str] =
    &[concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/Us", "ers/")];

const TEST_COMMAND: &str = "scripts/test";

fn machine_paths(source: &Source) -> Vec<String> {
    let numbered = (1..).zip(source.text.lines());
    let named = numbered.filter(|(_, line)| MACHINE_PATHS.iter().any(|path| line.contains(path)));
    named.map(|(n, _)| format!("{}:{n}: a path of one machine", source.path)).collect()
}

/// `-- KEYS[1] the lock`, `-- ARGV[1] the owner`, `-- Returns 1 if ..`
fn lua_header(source: &Source) -> Vec<String> {
    let header: Vec<_> = source.text.lines().take_while(|line| line.starts_with("--")).collect();
    let header = header.join("\n").to_lowercase();
    let missing = ["KEYS", "ARGV", "Returns"].into_iter();
    missing
        .filter(|word| !header.contains(&word.to_lowercase()))
        .map(|word| format!("{}: the comment at its top does not name {word}", source.path))
        .collect()
}

/// `cd` with a relative path looks in the directories of `CDPATH` first, and prints what it found.
fn strayed_cd(script: &Source) -> Vec<String> {
    let commands = || script.text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    let is_word = |c: char| c.is_whitespace() || "();&|".contains(c);
    let has_cd = commands().any(|line| line.split(is_word).any(|word| word == "cd"));
    let is_unset = commands().find(|line| !line.is_empty()) == Some("unset CDPATH");
    let is_strayed = has_cd && !is_unset;
    let message = || format!("{}: begin with `unset CDPATH`, as it uses `cd`", script.path);
    is_strayed.then(message).into_iter().collect()
}

fn late_code(readme: &Source) -> Vec<String> {
    let first = readme.text.lines().position(|line| line.starts_with("```"));
    match first {
        Some(line) if line < 25 => Vec::new(),
        _ => vec!["README.md: its first program starts after line 25".to_owned()],
    }
}

/// The lines of code blocks that run `scripts/test`, without `$` and `./`.
fn test_commands(text: &str) -> Vec<String> {
    let bare = text.lines().map(|line| line.trim().trim_start_matches("$ "));
    let bare = bare.map(|line| line.trim_start_matches("./"));
    let words = bare.filter(|line| line.split_whitespace().next() == Some(TEST_COMMAND));
    words.map(|line| line.split(" #").next().unwrap_or(line).trim().to_owned()).collect()
}

fn untested_command(readme: &Source, ci: &Source) -> Vec<String> {
    let (promised, run) = (test_commands(&readme.text), test_commands(&ci.text));
    if promised.first().is_some_and(|command| run.contains(command)) {
        return Vec::new();
    }
    vec![format!("README.md gives the test command {promised:?}, {} runs {run:?}", ci.path)]
}

fn find<'a>(sources: &'a [Source], path: &str) -> Option<&'a Source> {
    sources.iter().find(|source| source.path == path)
}

#[test]
fn no_text_names_a_path_of_one_machine() {
    assert_none(&tree::all().iter().flat_map(machine_paths).collect::<Vec<_>>());
}

#[test]
fn every_script_says_what_it_takes_and_gives() {
    let scripts = tree::all().into_iter().filter(|source| source.has_ext("lua"));
    assert_none(&scripts.flat_map(|script| lua_header(&script)).collect::<Vec<_>>());
}

#[test]
fn no_script_goes_where_a_variable_of_the_user_leads() {
    let is_shell = |source: &Source| {
        let first = source.text.lines().next().unwrap_or_default();
        first.starts_with("#!") && first.ends_with("sh")
    };
    let scripts: Vec<_> = tree::all().into_iter().filter(is_shell).collect();
    assert!(scripts.iter().any(|script| script.path == ".ci/run"));
    assert_none(&scripts.iter().flat_map(strayed_cd).collect::<Vec<_>>());
}

#[test]
fn the_readme_shows_code_at_once_and_the_command_that_ci_runs() {
    let all = tree::all();
    let ci = find(&all, ".ci/run").expect("the check is part of the project");
    assert_eq!(test_commands(&ci.text), [TEST_COMMAND]);
    if let Some(readme) = find(&all, "README.md") {
        assert_none(&late_code(readme));
        assert_none(&untested_command(readme, ci));
    }
}

#[test]
fn the_text_checks_can_fail() {
    let path = Source::new("a.md", &format!("see\n`{}x`", MACHINE_PATHS[0]));
    assert_one(&machine_paths(&path), "a.md:2");
    let header = "-- Frees a lock.\n-- KEYS[1] lock\n-- ARGV[1] owner\n-- Returns 1\nreturn 1";
    assert_none(&lua_header(&Source::new("a.lua", header)));
    for word in ["KEYS", "ARGV", "Returns"] {
        let cut = header.replace(word, "x") + " -- KEYS ARGV Returns";
        assert_one(&lua_header(&Source::new("a.lua", &cut)), word);
    }
    let script = "#!/bin/sh\n# Goes.\n\nunset CDPATH\nset -eu\nroot=$(cd .. && pwd)\n";
    assert_none(&strayed_cd(&Source::new("a", script)));
    assert_one(&strayed_cd(&Source::new("a", &script.replace("unset CDPATH", ""))), "a: begin");
    assert_one(&strayed_cd(&Source::new("a", &format!("set -eu\n{script}"))), "a: begin");
    assert_none(&strayed_cd(&Source::new("a", "#!/bin/sh\n# Without cd.\necho abcd\n")));
    let readme = |before: usize, command: &str| {
        let text = format!("{}```sh\n{command}\n```\n", "\n".repeat(before));
        Source::new("README.md", &text)
    };
    assert_none(&late_code(&readme(24, "")));
    assert_one(&late_code(&readme(25, "")), "line 25");
    let ci = Source::new(".ci/run", "echo\nscripts/test\n");
    assert_none(&untested_command(&readme(0, "$ ./scripts/test   # all of them"), &ci));
    assert_one(&untested_command(&readme(0, "scripts/test --quick"), &ci), "--quick");
    assert_one(&untested_command(&readme(0, "cargo test"), &ci), "README.md");
}
