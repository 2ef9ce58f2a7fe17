//! Takes the lock, runs the command, releases the lock.

use std::ffi::OsString;
use std::time::Duration;

use redlock::{LockError, LockGuard, Redlock, Released, Wait};
use rustix::process::Signal;

use super::command_line::key_and_command;
use super::deadline::Deadline;
use super::group::Group;
use super::moment::Moment;
use super::supervisor::{Outcome, Phase, Supervisor};
use super::terminal::{self, Terminal};
use super::watchdog::Watchdog;
use crate::args::RunArgs;
use crate::duration::show;
use crate::ending::End;
use crate::failure::{self, Failure};
use crate::output::{complain, plain};
use crate::servers::Servers;
use crate::signals::{Signals, is_ending};

/// A shorter lease would end while this machine is busy for a moment.
const SHORTEST_EXPIRE: Duration = Duration::from_secs(1);
const DEFAULT_GRACE: Duration = Duration::from_secs(5);
/// For how long a redlock that was told to end waits until it has left the queue of the server.
const FAREWELL: Duration = Duration::from_secs(2);

/// Runs a command under a lock. Returns how this process has to end. What is wrong with the command
/// is told first, then what is wrong with the servers.
pub(crate) async fn run(
    args: &RunArgs,
    servers: impl Fn() -> Result<Servers, Failure>,
) -> Result<End, Failure> {
    let line: Vec<OsString> = std::env::args_os().collect();
    let (key, words) = key_and_command(args, &line)?;
    let grace = checked_grace(args.expire, args.grace)?;
    let servers = servers()?;
    let mut signals = Signals::listen()?;
    let redlock = tokio::select! {
        built = client(args, &servers) => built?,
        signal = given_up(&mut signals) => return Ok(End::Signal(signal)),
    };
    let guard = tokio::select! {
        taken = take(&redlock, &key, args) => match taken {
            Err(error) => return Err(refused(args, error)),
            Ok(guard) => guard,
        },
        signal = given_up(&mut signals) => {
            // A signal ends this process without the wait at the end of `main`.
            redlock.shutdown(FAREWELL).await;
            return Ok(End::Signal(signal));
        }
    };
    let outcome = under(&guard, &words, args, grace, &mut signals).await;
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => {
            // The lock is free before the error is told.
            let _ = guard.release().await;
            return Err(Failure::new(failure::SYSTEM, format!("cannot start it: {error}")));
        }
    };
    if outcome.is_lost {
        return Ok(End::Code(failure::LOST));
    }
    release(guard).await;
    Ok(outcome.end)
}

fn checked_grace(expire: Duration, grace: Option<Duration>) -> Result<Duration, Failure> {
    if expire < SHORTEST_EXPIRE {
        return Err(Failure::usage(format!(
            "--expire is {}; it must be at least {}",
            show(expire),
            show(SHORTEST_EXPIRE)
        )));
    }
    match grace {
        Some(grace) if grace >= expire => Err(Failure::usage(format!(
            "--grace {} does not fit into --expire {}: the command has to be gone before the lease \
             ends; choose a longer --expire, or a --grace of at most a sixth of it",
            show(grace),
            show(expire)
        ))),
        Some(grace) => Ok(grace),
        None => Ok(DEFAULT_GRACE.min(expire / 6)),
    }
}

async fn client(args: &RunArgs, servers: &Servers) -> Result<Redlock, LockError> {
    let mut builder = servers.builder();
    if let Some(name) = &args.client_name {
        builder = builder.client_name(name);
    }
    builder.build().await
}

async fn take(redlock: &Redlock, key: &str, args: &RunArgs) -> Result<LockGuard, LockError> {
    let mut request = redlock.lock(key).expire(args.expire);
    request = request.wait(if args.nonblock { Wait::Never } else { args.wait });
    if let Some(max_renew) = args.max_renew {
        request = request.max_renew(max_renew);
    }
    if args.read {
        request = request.read();
    }
    if let Some(permits) = args.permits {
        request = request.permits(permits);
    }
    request.acquire().await
}

fn refused(args: &RunArgs, error: LockError) -> Failure {
    if !error.is_busy() {
        return error.into();
    }
    let message = match &error {
        _ if args.quiet => String::new(),
        LockError::Timeout { key, waited, holder, .. } => {
            let holder = holder.as_deref().map_or_else(|| "another process".to_owned(), plain);
            // What holds a read lock up is a reader only where a writer waits behind it.
            let is_behind_writer = args.read && is_reader(&holder);
            let note = if is_behind_writer { ", and a writer waits for it" } else { "" };
            if args.nonblock || args.wait == Wait::Never {
                format!("lock `{key}` is held by {holder}{note}")
            } else {
                let waited = show(*waited);
                format!("lock `{key}` was not free within {waited}: it is held by {holder}{note}")
            }
        }
        other => other.to_string(),
    };
    Failure::new(args.conflict_exit_code, message)
}

/// Is the holder a group of readers, as the library tells it: `3 readers`, or `readers`?
fn is_reader(holder: &str) -> bool {
    let (count, name) = holder.split_once(' ').unwrap_or(("", holder));
    count.bytes().all(|byte| byte.is_ascii_digit()) && matches!(name, "reader" | "readers")
}

/// Waits for a signal that ends the waiting for a lock.
async fn given_up(signals: &mut Signals) -> Signal {
    loop {
        match signals.next().await {
            signal if is_ending(signal) => return signal,
            Signal::TSTP => {
                terminal::suspend();
            }
            _ => {}
        }
    }
}

async fn under(
    guard: &LockGuard,
    words: &[OsString],
    args: &RunArgs,
    grace: Duration,
    signals: &mut Signals,
) -> std::io::Result<Outcome> {
    let until = Moment::now().plus(guard.remaining());
    let watchdog = Watchdog::start()?;
    let envs = [
        ("REDLOCK_KEY", guard.key().to_owned()),
        ("REDLOCK_OWNER", guard.owner().to_owned()),
        ("REDLOCK_FENCING_TOKEN", guard.fencing_token().to_string()),
    ];
    let group = Group::at_gate(words, &envs)?;
    let supervisor = Supervisor {
        guard,
        max_renew: args.max_renew,
        grace,
        deadline: Deadline::new(until, grace),
        group,
        watchdog,
        signals,
        terminal: Terminal::open(),
        phase: Phase::default(),
    };
    supervisor.supervise().await
}

/// The result of the command stands, whatever the release finds.
async fn release(guard: LockGuard) {
    let key = guard.key().to_owned();
    let what = match guard.release().await {
        Ok(Released::Expired | Released::Stolen) => {
            "was lost while the command ran: another process may have worked at the same time"
        }
        Err(error) => return complain(&format!("{error}; the lock ends with its lease")),
        Ok(_) => return,
    };
    complain(&format!("lock `{key}` {what}"));
}
