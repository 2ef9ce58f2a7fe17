//! The command line tool of redlock: commands under distributed locks on Redis, and what operators
//! need. `redlock --help` and the README of this package say what it can do.

#[cfg(not(unix))]
compile_error!("redlock-cli needs process groups and signals, which only Unix has");

mod args;
mod doctor;
mod duration;
mod ending;
mod failure;
mod holder;
mod locks;
mod lookout;
mod ls;
mod manual;
mod masters;
mod node;
mod output;
mod owner_value;
mod release;
mod run;
mod runtime;
mod servers;
mod show;
mod signals;
mod survey;
mod top;
mod watch;

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::process::ExitCode;

use args::{Cli, Command};
use ending::End;
use failure::Failure;
use output::{complain, complain_if_read, write_stderr};
use servers::Servers;

fn main() -> ExitCode {
    let line: Vec<OsString> = std::env::args_os().collect();
    if let Some(code) = run::play(&line) {
        return code.into();
    }
    let cli = match Cli::read(&line) {
        Ok(cli) => cli,
        Err(error) => return tell(&error).into(),
    };
    let is_run = matches!(cli.command, Command::Run(_));
    // One thread: the kernel ends the command with the thread that started it.
    let outcome = runtime::block_on(execute(cli)).map_err(Failure::from).flatten();
    let end = outcome.unwrap_or_else(|failure| {
        if !failure.message.is_empty() {
            // `run` handles signals to the end.
            let tell = if is_run { complain_if_read } else { complain };
            tell(&failure.message);
        }
        End::Code(failure.code)
    });
    end.carry_out()
}

/// Tells what is wrong with the command line, or helps. The exit code.
fn tell(error: &clap::Error) -> u8 {
    if !error.use_stderr() {
        return error.print().map_or_else(|error| Failure::from(error).code, |()| 0);
    }
    let told = if io::stderr().is_terminal() {
        error.print()
    } else {
        write_stderr(&error.render().to_string())
    };
    told.map_or(failure::SYSTEM, |()| failure::USAGE)
}

async fn execute(cli: Cli) -> Result<End, Failure> {
    let servers = || Servers::from_args(&cli.servers);
    let code = match &cli.command {
        Command::Run(args) => return run::run(args, servers).await,
        Command::Top(args) => return top::top(args, &servers()?).await,
        Command::Ls(args) => ls::ls(args, &servers()?).await,
        Command::Show(args) => show::show(args, &servers()?).await,
        Command::Watch(args) => watch::watch(args, &servers()?).await,
        Command::Release(args) => release::release(args, &servers()?).await,
        Command::Doctor(args) => doctor::doctor(args, &servers()?).await,
        Command::Completions { shell } => manual::completions(*shell),
        Command::Man => manual::page(),
    };
    code.map(End::Code)
}
