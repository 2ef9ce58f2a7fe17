//! The command line.

#![allow(clippy::doc_markdown, reason = "the comments here are the help that people read")]

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{StringValueParser, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;
use redlock::__operator::is_yes;
use redlock::Wait;

use crate::{duration, failure};

const DEFAULT_PREFIX: &str = "lock:";

/// Runs commands under distributed locks on Redis, and looks after the locks.
///
/// The servers are named by REDLOCK_URLS (several URLs with commas: independent masters) or
/// REDIS_URL, by --url-file, or by --url where no password is part of the URL. REDLOCK_TLS_CA,
/// REDLOCK_TLS_CERT and REDLOCK_TLS_KEY name PEM files for rediss:// URLs.
#[derive(Debug, Parser)]
#[command(name = "redlock", version, max_term_width = 100)]
#[command(disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) servers: ServerArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// Reads the command line, and the variables that stand for options.
    pub(crate) fn read(line: &[OsString]) -> Result<Self, clap::Error> {
        let mut command = Self::command();
        let matches = command.try_get_matches_from_mut(line).map_err(without_wrong_tip)?;
        let cli = Self::from_arg_matches(&matches);
        let mut cli = cli.map_err(|error| error.format(&mut command))?;
        let is_on_line =
            |option: &str| matches.value_source(option) == Some(ValueSource::CommandLine);
        cli.servers.settle(is_on_line);
        let prefix = &cli.servers.prefix;
        // Nobody sees it in a file of variables, and the keys would be others than without it.
        if prefix.trim() != prefix && !is_on_line("prefix") {
            let message = format!(
                "REDLOCK_PREFIX is `{}`, with white space at its ends, so that its locks would \
                 exclude nobody who has it without; take the white space out, or give --prefix \
                 where it is meant",
                prefix.escape_debug()
            );
            return Err(command.error(ErrorKind::ValueValidation, message));
        }
        if cli.servers.sentinel.is_some() && cli.servers.cluster {
            let message = "--sentinel and --cluster (REDLOCK_SENTINEL and REDLOCK_CLUSTER) exclude \
                           each other";
            return Err(command.error(ErrorKind::ArgumentConflict, message));
        }
        Ok(cli)
    }
}

/// Without the advice to write `--` before an option that does not exist: what follows would be
/// the command to run, or a key.
fn without_wrong_tip(mut error: clap::Error) -> clap::Error {
    if let Some(ContextValue::StyledStrs(mut tips)) = error.remove(ContextKind::Suggested) {
        tips.retain(|tip| !tip.to_string().contains("as a value, use"));
        if !tips.is_empty() {
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
        }
    }
    error
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Servers")]
pub(crate) struct ServerArgs {
    /// A server without a password; several are independent masters. Everybody on this machine can
    /// read the command line: name servers with passwords by REDLOCK_URLS or --url-file
    #[arg(long, value_name = "URL", global = true)]
    pub(crate) url: Vec<String>,
    /// A file with URLs, one a line
    #[arg(long, value_name = "FILE", global = true, conflicts_with = "url")]
    pub(crate) url_file: Option<PathBuf>,
    /// Stands before every key in Redis, as in the services that use the locks. A blank variable is
    /// the default; --prefix '' stands for none
    #[arg(long, value_name = "TEXT", global = true, env = "REDLOCK_PREFIX")]
    #[arg(default_value = DEFAULT_PREFIX, hide_env_values = true)]
    #[arg(value_parser = Text(str::to_owned))]
    pub(crate) prefix: String,
    /// The URLs are those of sentinels, which call the master like this. With a login at the
    /// master it is redis://user:password@NAME, and only REDLOCK_SENTINEL may have the password
    #[arg(long, value_name = "NAME", global = true, env = "REDLOCK_SENTINEL")]
    #[arg(hide_env_values = true, value_parser = Text(str::to_owned))]
    pub(crate) sentinel: Option<String>,
    /// Was the name of the master written on the command line?
    #[arg(skip)]
    pub(crate) is_sentinel_on_line: bool,
    /// The URLs are those of a Redis Cluster
    #[arg(long, global = true, env = "REDLOCK_CLUSTER", hide_env_values = true)]
    #[arg(value_parser = Text(is_on))]
    pub(crate) cluster: bool,
    /// The longest --expire or --min-hold of all clients of independent masters: for so long one of
    /// these that has lost its data has no vote. For run and doctor [default: that of this command]
    #[arg(long, value_name = "TIME", global = true, env = "REDLOCK_LONGEST_EXPIRE")]
    #[arg(hide_env_values = true, value_parser = Text(str::to_owned))]
    pub(crate) longest_expire: Option<String>,
}

/// What a text stands for. An error names the variable that is none, where clap would blame the
/// arguments.
#[derive(Clone)]
struct Text<T>(fn(&str) -> T);

impl<T: Clone + Send + Sync + 'static> TypedValueParser for Text<T> {
    type Value = T;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<T, clap::Error> {
        StringValueParser::new().parse_ref(command, arg, value).map(|text| (self.0)(&text))
    }

    fn parse_ref_(
        &self,
        command: &clap::Command,
        arg: Option<&Arg>,
        value: &OsStr,
        source: ValueSource,
    ) -> Result<T, clap::Error> {
        match arg.and_then(Arg::get_env) {
            Some(name) if source == ValueSource::EnvVariable && value.to_str().is_none() => {
                let message = format!("the value of {} is no UTF-8 text", name.display());
                Err(command.clone().error(ErrorKind::InvalidUtf8, message))
            }
            _ => self.parse_ref(command, arg, value),
        }
    }
}

/// Is the variable of a switch on? A blank one is not, as in the library.
fn is_on(value: &str) -> bool {
    !value.trim().is_empty() && is_yes(value)
}

impl ServerArgs {
    /// A variable without a value is one that is not set, as in the library: a process without a
    /// prefix would exclude nobody. What the command line says counts as it is.
    fn settle(&mut self, is_on_line: impl Fn(&str) -> bool) {
        self.is_sentinel_on_line = is_on_line("sentinel");
        if self.prefix.trim().is_empty() && !is_on_line("prefix") {
            DEFAULT_PREFIX.clone_into(&mut self.prefix);
        }
        if !self.is_sentinel_on_line {
            let master = self.sentinel.take().map(|master| master.trim().to_owned());
            self.sentinel = master.filter(|master| !master.is_empty());
        }
        if !is_on_line("longest_expire") {
            self.longest_expire = self.longest_expire.take().filter(|time| !time.trim().is_empty());
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a command while a lock is held
    ///
    /// The lock is renewed while the command runs. Should it be lost, the command gets SIGTERM, and
    /// SIGKILL after --grace, both before the time of the lease is over. The exit code is that of
    /// the command; or 75: another process has the lock; 69: Redis cannot be reached, or refuses;
    /// 76: the lock was lost, also where only the release finds that, or where it does not find out
    /// whether the lock was held to the end, after a command that ended with 0; 64: wrong usage;
    /// 71: the operating system refused what redlock itself needs; 126 and 127: the command cannot
    /// be run, or is not found; 128 + n: signal n ended it. A signal that asks redlock to end is
    /// passed on to the command, and redlock ends after it, once the lock is released.
    ///
    /// The command finds REDLOCK_KEY, REDLOCK_OWNER and REDLOCK_FENCING_TOKEN in its environment.
    Run(RunArgs),
    /// List the locks that are held
    Ls(LsArgs),
    /// Show who holds a lock and who waits for it
    ///
    /// The exit code is 0 if the lock is taken, also by a `min_hold` that is not over, 1 if it is
    /// free, and 69 if Redis cannot be reached, or refuses.
    Show(ShowArgs),
    /// Print a line whenever a lock changes hands or its queue grows or shrinks, until Ctrl-C
    ///
    /// It also ends when the program that reads its lines has gone.
    ///
    /// It asks the servers again and again, so that a change that is undone between two questions
    /// is not seen.
    Watch(WatchArgs),
    /// Show the locks that are held, live
    Top(TopArgs),
    /// Take a lock away from its holder
    ///
    /// The next process in the queue gets it. The holder learns of it at its next renewal, and may
    /// work on until then: two may work at once. The lock is left alone if it has another owner by
    /// then than the one that was shown. The exit code is 0 if it was taken away, 1 if not, and 69
    /// if the servers have not confirmed it for each owner from whom it was to be taken.
    Release(ReleaseArgs),
    /// Check whether the servers are fit for locks
    ///
    /// Asks each of them for reachability, version, role, eviction policy, persistence, clock and
    /// the rights of the user. The exit code is 0 if all is good, 1 if something is doubtful, and 2
    /// if something is bad. It takes locks named `redlock-doctor-<random>` for some milliseconds.
    Doctor(DoctorArgs),
    /// Print a completion script
    Completions {
        /// For which shell
        shell: Shell,
    },
    /// Print the manual page: redlock man | man -l -
    Man,
}

#[derive(Debug, Args)]
#[command(override_usage = "redlock run [OPTIONS] --key KEY [--] COMMAND [ARG]..\n       \
                            redlock run [OPTIONS] KEY COMMAND [ARG]..\n       \
                            redlock run [OPTIONS] KEY -c 'SHELL_COMMAND'\n       \
                            redlock run [OPTIONS] --key KEY -c 'SHELL_COMMAND'")]
pub(crate) struct RunArgs {
    /// The lock, without the prefix. Without this option the first word is the key, as in flock
    #[arg(short, long)]
    pub(crate) key: Option<String>,
    /// How long to queue for the lock, and to try servers that are down: seconds, a number with a
    /// unit, or `forever`
    #[arg(short, long, value_name = "TIME", default_value = "5s", alias = "timeout")]
    #[arg(value_parser = duration::parse_wait)]
    pub(crate) wait: Wait,
    /// Fail at once where another process has the lock
    #[arg(short, long, alias = "nb", conflicts_with = "wait")]
    pub(crate) nonblock: bool,
    /// Read: run beside others that read, and never beside one that does not
    #[arg(short = 's', long, alias = "shared", conflicts_with = "permits")]
    pub(crate) read: bool,
    /// Run at most N at the same time. Not with independent masters
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) permits: Option<u32>,
    /// The lease: for how long the lock outlives a redlock that died, at least 1s
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration::parse)]
    pub(crate) expire: Duration,
    /// End the command when the lease was renewed N times; 0: never renew [default: no limit]
    #[arg(long, value_name = "N")]
    pub(crate) max_renew: Option<u32>,
    /// For a job that runs once: the lock stays taken for at least this time, even if the command
    /// ends earlier. Not with --read or --permits [default: until the command ends]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    #[arg(conflicts_with_all = ["read", "permits"])]
    pub(crate) min_hold: Option<Duration>,
    /// The exit code where another process has the lock
    #[arg(short = 'E', long, value_name = "CODE", default_value_t = failure::BUSY)]
    pub(crate) conflict_exit_code: u8,
    /// From SIGTERM to SIGKILL when the lock is lost; less where the lease ends before [default:
    /// 5s, or a sixth of --expire if that is less]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) grace: Option<Duration>,
    /// Begins the owner value in Redis [default: <host>-<pid>]
    #[arg(long, value_name = "NAME")]
    pub(crate) client_name: Option<String>,
    /// Do not say on stderr that another process has the lock
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Run this by $SHELL, or /bin/sh where there is none: one word, in quotes. Also after the key
    #[arg(short = 'c', long = "command", value_name = "SHELL_COMMAND")]
    pub(crate) script: Option<OsString>,
    /// What to run
    #[arg(trailing_var_arg = true, required_unless_present = "script", value_name = "COMMAND")]
    pub(crate) words: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct LsArgs {
    /// Keys with this pattern: `*` for any text, `?` for one character, `[ab]` for one of these
    #[arg(default_value = "*")]
    pub(crate) pattern: String,
    /// One object of JSON a line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The lock, without the prefix
    pub(crate) key: String,
    /// As one object of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    /// The lock, without the prefix
    pub(crate) key: String,
    /// How often to look
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = duration::parse)]
    pub(crate) interval: Duration,
    /// One object of JSON a line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// Keys with this pattern, as in `redlock ls`
    #[arg(default_value = "*")]
    pub(crate) pattern: String,
    /// How often to look
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration::parse)]
    pub(crate) interval: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct ReleaseArgs {
    /// The lock, without the prefix
    pub(crate) key: String,
    /// Needed, as it takes the lock from somebody who may rely on it
    #[arg(long, required = true)]
    pub(crate) force: bool,
    /// Do not ask; needed where stdin is not a terminal
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Only from this owner; without it, from all who share the lock
    #[arg(long, value_name = "OWNER")]
    pub(crate) owner: Option<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// One object of JSON a line
    #[arg(long)]
    pub(crate) json: bool,
}
