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
        let command = match &args.script {
            Some(script) => shell(script, words)?,
            None => words.clone(),
        };
        return Ok((key.clone(), command));
    }
    let [key, rest @ ..] = &words[..] else { return Err(missing_key()) };
    // `redlock run -- backup --all`: the first word is the command, and no key.
    let before = line.len().checked_sub(words.len() + 1).and_then(|at| line.get(at));
    if before.is_some_and(|word| word == "--") {
        return Err(missing_key());
    }
    let key = key.to_str().ok_or_else(|| Failure::usage("the key is no UTF-8 text"))?;
    let after_dashes = rest.strip_prefix(&[OsString::from("--")][..]);
    let rest = after_dashes.unwrap_or(rest);
    if let Some(script) = &args.script {
        return Ok((key.to_owned(), shell(script, rest)?));
    }
    if after_dashes.is_some_and(|command| !command.is_empty()) {
        return Ok((key.to_owned(), rest.to_vec()));
    }
    let is_shell = |flag: &OsString| flag == "-c" || flag == "--command";
    let command = match rest {
        [] => {
            return Err(Failure::usage(format!(
                "there is a key, `{key}`, and nothing to run; write `redlock run {key} COMMAND`"
            )));
        }
        [flag] if is_shell(flag) => {
            return Err(Failure::usage(format!(
                "nothing follows `{}`; {ONE_WORD}",
                flag.display()
            )));
        }
        [flag, script, rest @ ..] if is_shell(flag) => shell(script, rest)?,
        [flag, ..] if flag.to_str().is_some_and(|flag| flag.starts_with('-')) => {
            let flag = flag.to_string_lossy();
            return Err(Failure::usage(format!(
                "`{flag}` stands after the key; options of redlock come before it"
            )));
        }
        words => words.to_vec(),
    };
    Ok((key.to_owned(), command))
}

const ONE_WORD: &str = "quote the whole shell command, as in `redlock run KEY -c 'COMMAND ARG ..'`";

/// The shell that runs this; `rest` is what follows it.
fn shell(script: &OsStr, rest: &[OsString]) -> Result<Vec<OsString>, Failure> {
    if let [word, ..] = rest {
        let word = word.to_string_lossy();
        return Err(Failure::usage(format!(
            "`-c` takes one word, and `{word}` follows it; {ONE_WORD}"
        )));
    }
    let shell = std::env::var_os("SHELL").filter(|shell| !shell.is_empty());
    Ok(vec![shell.unwrap_or_else(|| "/bin/sh".into()), "-c".into(), script.to_owned()])
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
        for line in [
            &["redlock", "run", "k", "-c", "exit 3"][..],
            &["redlock", "run", "k", "--command", "exit 3"],
            &["redlock", "run", "--key", "k", "-c", "exit 3"],
            &["redlock", "run", "-n", "-c", "exit 3", "-k", "k"],
            &["redlock", "run", "-c", "exit 3", "k"],
        ] {
            let (key, command) = parsed(line).unwrap();
            let expected = ["-c".into(), "exit 3".into()];
            assert_eq!((key.as_str(), &command[1..]), ("k", &expected[..]), "{line:?}");
        }
    }

    #[test]
    fn what_follows_two_dashes_is_no_option() {
        let expected = Ok(("k".to_owned(), vec!["-c".into(), "exit 3".into()]));
        for line in [
            &["redlock", "run", "k", "--", "-c", "exit 3"][..],
            &["redlock", "run", "--key", "k", "--", "-c", "exit 3"],
        ] {
            assert_eq!(parsed(line), expected, "{line:?}");
        }
        assert!(parsed(&["redlock", "run", "k", "--"]).unwrap_err().contains("nothing to run"));
    }

    #[test]
    fn a_shell_command_is_one_word() {
        for line in [
            &["redlock", "run", "k", "-c", "echo a", "b", "c"][..],
            &["redlock", "run", "--key", "k", "-c", "echo a", "b", "c"],
            &["redlock", "run", "-k", "k", "-c", "echo a", "--", "b"],
            &["redlock", "run", "-c", "echo a", "k", "b"],
        ] {
            let error = parsed(line).unwrap_err();
            assert!(error.contains("takes one word, and `b` follows it; quote"), "{error}");
        }
        let error = parsed(&["redlock", "run", "k", "-c"]).unwrap_err();
        assert!(error.contains("nothing follows `-c`; quote"), "{error}");
        assert!(parsed(&["redlock", "run", "-c", "echo a"]).unwrap_err().contains("--key KEY"));
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
