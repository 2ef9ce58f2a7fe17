//! What is to be run under which key, in each of the ways to write it.

use std::ffi::{OsStr, OsString};

use crate::args::RunArgs;
use crate::failure::Failure;

/// The key, and the words of the command.
pub(super) fn key_and_command(
    args: &RunArgs,
    line: &[OsString],
) -> Result<(String, Vec<OsString>), Failure> {
    let words = &args.words;
    if let Some(key) = &args.key {
        return Ok((key.clone(), words.clone()));
    }
    let [key, rest @ ..] = &words[..] else { return Err(missing_key()) };
    // `redlock run -- backup --all`: the first word is the command, and no key.
    let before = line.len().checked_sub(words.len() + 1).and_then(|at| line.get(at));
    if before.is_some_and(|word| word == "--") {
        return Err(missing_key());
    }
    let key = key.to_str().ok_or_else(|| Failure::usage("the key is no UTF-8 text"))?;
    let rest = rest.strip_prefix(&[OsString::from("--")][..]).unwrap_or(rest);
    let command = match rest {
        [] => {
            return Err(Failure::usage(format!(
                "there is a key, `{key}`, and nothing to run; write `redlock run {key} COMMAND`"
            )));
        }
        [flag, script] if flag == "-c" || flag == "--command" => shell(script),
        [flag, ..] if flag.to_str().is_some_and(|flag| flag.starts_with('-')) => {
            let flag = flag.to_string_lossy();
            return Err(Failure::usage(format!(
                "`{flag}` stands behind the key; options of redlock come before it"
            )));
        }
        words => words.to_vec(),
    };
    Ok((key.to_owned(), command))
}

fn shell(script: &OsStr) -> Vec<OsString> {
    let shell = std::env::var_os("SHELL").filter(|shell| !shell.is_empty());
    vec![shell.unwrap_or_else(|| "/bin/sh".into()), "-c".into(), script.to_owned()]
}

fn missing_key() -> Failure {
    Failure::usage("no lock is named; write `redlock run --key KEY -- COMMAND`")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command};

    fn parsed(line: &[&str]) -> Result<(String, Vec<OsString>), String> {
        let line: Vec<OsString> = line.iter().map(OsString::from).collect();
        let cli = Cli::try_parse_from(&line).map_err(|error| error.to_string())?;
        let Command::Run(args) = cli.command else { panic!("{line:?}") };
        key_and_command(&args, &line).map_err(|failure| failure.message)
    }

    #[test]
    fn a_key_and_a_command_in_each_way() {
        let expected = Ok(("k".to_owned(), vec!["ls".into(), "-l".into()]));
        for line in [
            &["redlock", "run", "--key", "k", "--", "ls", "-l"][..],
            &["redlock", "run", "--key", "k", "ls", "-l"],
            &["redlock", "run", "-k", "k", "-w", "5", "-E", "1", "ls", "-l"],
            &["redlock", "run", "k", "ls", "-l"],
            &["redlock", "run", "-n", "k", "ls", "-l"],
            &["redlock", "run", "k", "--", "ls", "-l"],
        ] {
            assert_eq!(parsed(line), expected, "{line:?}");
        }
        let (key, command) = parsed(&["redlock", "run", "k", "-c", "exit 3"]).unwrap();
        assert_eq!(
            (key.as_str(), command[1..].to_vec()),
            ("k", vec!["-c".into(), "exit 3".into()])
        );
    }

    #[test]
    fn a_command_is_never_taken_for_a_key() {
        for line in
            [&["redlock", "run", "--", "backup", "--all"][..], &["redlock", "run", "-n", "--", "a"]]
        {
            assert!(parsed(line).unwrap_err().contains("--key KEY"), "{line:?}");
        }
        assert!(parsed(&["redlock", "run", "k", "-n", "ls"]).unwrap_err().contains("before it"));
        assert!(parsed(&["redlock", "run", "backup"]).unwrap_err().contains("nothing to run"));
        assert!(parsed(&["redlock", "run", "--kye", "k", "ls"]).unwrap_err().contains("--kye"));
        assert!(parsed(&["redlock", "run", "--key", "k"]).unwrap_err().contains("COMMAND"));
    }
}
