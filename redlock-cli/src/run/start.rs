//! Takes the lock, runs the command, releases the lock.

use std::ffi::OsString;
use std::io;
use std::pin::pin;
use std::time::Duration;

use redlock::__operator::has_only_run_out;
use redlock::{LockError, LockGuard, LostReason, Redlock, Released, Wait};
use rustix::process::{Signal, getpid};
use tokio::time::{Instant, timeout};

use super::client::client;
use super::command_line::key_and_command;
use super::deadline::Deadline;
use super::descendants::Descendants;
use super::group::Group;
use super::moment::Moment;
use super::refusal::{KEY, OWNER, refused, warn_of_deadlock, warn_of_no_end};
use super::supervisor::{Outcome, Phase, Supervisor};
use super::terminal::{self, Terminal};
use super::watchdog::Watchdog;
use crate::args::RunArgs;
use crate::duration::show;
use crate::ending::End;
use crate::failure::{self, Failure, in_own_words};
use crate::output::complain_if_read;
use crate::servers::Servers;
use crate::signals::{Signals, is_ending};

/// A shorter lease would end while this machine is busy for a moment.
const SHORTEST_EXPIRE: Duration = Duration::from_secs(1);
const DEFAULT_GRACE: Duration = Duration::from_secs(5);
/// For how long a redlock that was told to end waits until it has left the queue of the server, or
/// until its lock is released.
const FAREWELL: Duration = Duration::from_secs(2);
/// How long the start of the further processes may take: the lock is held, and nothing runs. A
/// start that stands still before the new program is in place cannot be waited for with a bound.
const START: Duration = Duration::from_secs(30);

/// Runs a command under a lock. Returns how this process has to end. What is wrong with the command
/// is reported first, then what is wrong with the servers.
pub(crate) async fn run(
    args: &RunArgs,
    servers: impl Fn() -> Result<Servers, Failure>,
) -> Result<End, Failure> {
    let line: Vec<OsString> = std::env::args_os().collect();
    let (key, words) = key_and_command(args, &line)?;
    let grace = checked_grace(args.expire, args.grace)?;
    let servers = servers()?;
    servers.advise(&key);
    // Those that end redlock are heard twice: the command gets one that comes after its start.
    let (mut signals, ending) = (Signals::listen()?, Signals::that_end()?);
    let (redlock, wait) = tokio::select! {
        built = client(args, &servers) => built?,
        signal = given_up(&mut signals) => return Ok(End::Signal(signal)),
    };
    let taken = tokio::select! {
        taken = take(&redlock, &servers, &key, args, wait) => taken,
        signal = given_up(&mut signals) => {
            // A signal ends this process without the wait at the end of `main`.
            redlock.shutdown(FAREWELL).await;
            return Ok(End::Signal(signal));
        }
    };
    let guard = match taken {
        Ok(guard) => guard,
        Err(failure) => {
            // With musl, the end of `main` does not wait for clean-ups.
            redlock.shutdown(FAREWELL).await;
            return Err(failure);
        }
    };
    let outcome = under(&guard, &words, (args, grace), &mut signals, ending).await;
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(Unstarted { error, asked }) => {
            // The lock is free before the error is reported, unless it has a `min_hold`.
            let release = guard.release();
            let (_, signal) = unless_given_up(release, asked.is_some(), &mut signals).await;
            let failure = unstarted(&error);
            let Some(signal) = asked.or(signal) else { return Err(failure) };
            complain_if_read(&failure.message);
            return Ok(End::Signal(signal));
        }
    };
    if outcome.is_lost {
        drop(guard);
        redlock.shutdown(FAREWELL).await;
        return Ok(End::Code(failure::LOST));
    }
    let was_asked = outcome.was_asked_to_end;
    let (is_in_doubt, signal) = unless_given_up(release(guard), was_asked, &mut signals).await;
    if is_in_doubt.is_none() {
        let within = show(FAREWELL);
        complain_if_read(&format!(
            "lock `{key}` was not released within {within}, and a signal asks redlock to end; \
             the lock ends with its lease"
        ));
    }
    Ok(match (outcome.end, signal) {
        (End::Code(_), Some(signal)) => End::Signal(signal),
        // A command that has failed says so by its own code.
        (End::Code(0), None) if is_in_doubt != Some(false) => End::Code(failure::LOST),
        (end, _) => end,
    })
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

async fn take(
    redlock: &Redlock,
    servers: &Servers,
    key: &str,
    args: &RunArgs,
    wait: Wait,
) -> Result<LockGuard, Failure> {
    warn_of_deadlock(args, servers, key).await;
    let mut request = redlock.lock(key).expire(args.expire).wait(wait);
    if let Some(max_renew) = args.max_renew {
        request = request.max_renew(max_renew);
    }
    if let Some(min_hold) = args.min_hold {
        request = request.min_hold(min_hold);
    }
    if args.read {
        request = request.read();
    }
    if let Some(permits) = args.permits {
        request = request.permits(permits);
    }
    let mut acquired = pin!(request.acquire());
    let acquired = tokio::select! {
        biased;
        acquired = &mut acquired => acquired,
        () = warn_of_no_end(args, servers, key) => acquired.await,
    };
    match acquired {
        Err(error) => Err(refused(args, servers, key, error).await),
        Ok(guard) => Ok(guard),
    }
}

/// A command with too many words cannot be run. Anything else is what redlock itself needs.
fn unstarted(error: &io::Error) -> Failure {
    let is_too_long = error.kind() == io::ErrorKind::ArgumentListTooLong;
    let code = if is_too_long { failure::CANNOT_RUN } else { failure::SYSTEM };
    Failure::new(code, format!("cannot start it: {error}"))
}

/// Waits for a signal that ends the waiting for a server.
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

/// Waits for what a release finds, and for a signal that asks this process to end: the release has
/// [`FAREWELL`] from then on. `was_asked`: such a signal has come before, and it has no more.
async fn unless_given_up<T>(
    release: impl Future<Output = T>,
    was_asked: bool,
    signals: &mut Signals,
) -> (Option<T>, Option<Signal>) {
    let mut release = pin!(release);
    let (begun, time) = (Instant::now(), if was_asked { FAREWELL } else { Duration::MAX });
    let signal = tokio::select! {
        found = timeout(time, &mut release) => return (found.ok(), None),
        signal = given_up(signals) => signal,
    };
    let left = FAREWELL.min(time.saturating_sub(begun.elapsed()));
    (timeout(left, release).await.ok(), Some(signal))
}

/// Why a command was not started, or could not be looked after.
struct Unstarted {
    error: io::Error,
    /// This signal has asked redlock to end.
    asked: Option<Signal>,
}

impl From<io::Error> for Unstarted {
    fn from(error: io::Error) -> Self {
        Self { error, asked: None }
    }
}

async fn under(
    guard: &LockGuard,
    words: &[OsString],
    (args, grace): (&RunArgs, Duration),
    signals: &mut Signals,
    mut ending: Signals,
) -> Result<Outcome, Unstarted> {
    let (watchdog, descendants, group) = tokio::select! {
        biased;
        signal = given_up(&mut ending) => {
            let error = io::Error::other("a signal asks redlock to end");
            return Err(Unstarted { error, asked: Some(signal) });
        }
        _ = guard.lost() => {
            if let Err(error) = guard.check() {
                complain_if_read(&format!("{error}; the command is not started"));
            }
            let end = End::Code(failure::LOST);
            return Ok(Outcome { end, is_lost: true, was_asked_to_end: false });
        }
        started = in_time(processes(guard, words)) => started?,
    };
    // The watchdog is told of this end first: not of one that the lease had before the start of two
    // processes, which takes longer than a lock that was handed over lasts on a busy machine.
    let until = Moment::now().plus(guard.remaining());
    let supervisor = Supervisor {
        guard,
        max_renew: args.max_renew,
        expire: args.expire,
        grace,
        deadline: Deadline::new(until, grace),
        group,
        descendants,
        watchdog,
        signals,
        terminal: Terminal::open(),
        phase: Phase::default(),
    };
    Ok(supervisor.supervise().await?)
}

/// What has started, unless that takes longer than [`START`].
async fn in_time<T>(start: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    timeout(START, start).await.unwrap_or_else(|_| {
        Err(io::Error::other(format!("the start was not over within {}", show(START))))
    })
}

/// Starts the watchdog, and the process that will become the command; returns when they are ready.
async fn processes(
    guard: &LockGuard,
    words: &[OsString],
) -> io::Result<(Watchdog, Descendants, Group)> {
    let watchdog = Watchdog::start(guard.owner()).await?;
    let envs = [
        (KEY, guard.key().to_owned()),
        (OWNER, guard.owner().to_owned()),
        ("REDLOCK_FENCING_TOKEN", guard.fencing_token().to_string()),
    ];
    let descendants = Descendants::from_now(getpid());
    let group = Group::at_gate(words, &envs).await?;
    Ok((watchdog, descendants, group))
}

/// Returns whether another process may have had the lock while the command ran, by what this finds.
async fn release(guard: LockGuard) -> bool {
    let key = guard.key().to_owned();
    let end = Moment::now().plus(guard.remaining());
    let unknown = format!("it is not known whether lock `{key}` was held to the end");
    let (is_held, mut has_run_out) = match guard.check() {
        Ok(()) => (true, false),
        // A command that did not end before its lease was ended, or is told as one that was lost.
        Err(LockError::Lost { reason, .. }) => {
            let is_unanswered = has_only_run_out(guard.lease());
            let by_time = matches!(reason, LostReason::RenewalLimit | LostReason::Unreachable);
            (false, is_unanswered || by_time)
        }
        Err(_) => (false, false),
    };
    let doubt = match guard.release().await {
        Ok(Released::Expired | Released::Stolen) => {
            format!("lock `{key}` was lost while the command ran")
        }
        // The server has answered after the end of the lease, before which the command was over.
        Ok(Released::Unknown) if is_held && Moment::now() >= end => return false,
        Ok(Released::Unknown) => unknown,
        Ok(_) => return false,
        // Whether another process had the lock since its last renewal, no server has told.
        Err(error) => {
            complain_if_read(&in_own_words(&error.to_string()));
            has_run_out = false;
            unknown
        }
    };
    if !has_run_out {
        complain_if_read(&format!("{doubt}: another process may have worked at the same time"));
    }
    !has_run_out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_start_that_stands_still_is_given_up() {
        let begun = Instant::now();
        let started = timeout(START * 2, in_time(std::future::pending::<io::Result<()>>())).await;
        let error = started.expect("it is given up").unwrap_err();
        assert_eq!(begun.elapsed(), START);
        assert!(error.to_string().contains("not over within 30.0 s"), "{error}");
    }

    #[test]
    fn the_grace_fits_into_the_lease() {
        let ms = Duration::from_millis;
        let grace = |expire, grace: Option<u64>| {
            let checked = checked_grace(ms(expire), grace.map(ms));
            checked.map_err(|failure| failure.code)
        };
        assert_eq!(grace(30_000, None), Ok(ms(5_000)));
        assert_eq!(grace(12_000, None), Ok(ms(2_000)), "a sixth");
        assert_eq!(grace(1_000, None), Ok(ms(1_000) / 6), "the shortest lease");
        assert_eq!(grace(999, None), Err(failure::USAGE));
        assert_eq!(grace(10_000, Some(9_999)), Ok(ms(9_999)));
        assert_eq!(grace(10_000, Some(10_000)), Err(failure::USAGE));
    }
}
