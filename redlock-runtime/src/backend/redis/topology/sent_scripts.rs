//! What is known of each script that is on its way to a cluster.
//!
//! The client library tries a command several times, and does not say so: after a redirect, but
//! also when a connection broke, or when it could not find out which server has which keys. The
//! first try may have been carried out then. So each try of a script is noted here before it
//! leaves, and one that follows another whose outcome is unknown does not leave.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::sync::{Arc, MutexGuard};

use deadpool_redis::redis::{Arg, Cmd, ErrorKind, RedisError, RedisResult, Value};

use crate::mutex::Mutex;
use crate::process::{self, PerProcess};

/// The scripts of all callers. The client library makes the connections to the single servers, and
/// gives them nothing but an address.
static SCRIPTS: PerProcess<Mutex<Scripts>> = PerProcess::new();

type Scripts = BTreeMap<Identity, Arc<Mutex<Progress>>>;

/// The address of a command's text. It identifies the command, as the client library keeps the
/// bytes in place until it is done with the command.
type Identity = usize;

#[derive(Debug)]
enum Progress {
    /// No try has left, or the last one was refused.
    Unsent,
    /// A try has left. Its answer may have come.
    Sent,
    /// The try that left has failed: whether it was carried out is unknown.
    Failed(RedisError),
}

/// A script on its way, seen by its caller.
pub(super) struct SentScript {
    identity: Identity,
    /// The caller may look after the text is gone, and another one has its place.
    progress: Arc<Mutex<Progress>>,
    process: process::ProcessId,
}

impl SentScript {
    pub(super) fn new(script: &Cmd) -> Self {
        let (identity, process) = (identity(script), process::id());
        let progress = Arc::new(Mutex::new(Progress::Unsent));
        if let Some(mut scripts) = scripts() {
            scripts.insert(identity, Arc::clone(&progress));
        }
        Self { identity, progress, process }
    }

    /// The error to report where all tries ended with `error`: an I/O error if the outcome of the
    /// script is unknown, any other if the script was refused or has not left.
    pub(super) fn meant(&self, error: RedisError) -> RedisError {
        match &*self.progress.lock() {
            Progress::Failed(first) => first.clone(),
            Progress::Sent if !error.is_io_error() => unknown(error),
            Progress::Unsent if error.is_io_error() => {
                let why =
                    (ErrorKind::ClusterConnectionNotFound, "no connection", error.to_string());
                why.into()
            }
            Progress::Sent | Progress::Unsent => error,
        }
    }
}

impl Drop for SentScript {
    fn drop(&mut self) {
        // In the child of a fork, another thread of the parent may hold the mutex.
        if self.process == process::id()
            && let Some(mut scripts) = scripts()
            && let Entry::Occupied(entry) = scripts.entry(self.identity)
            && Arc::ptr_eq(entry.get(), &self.progress)
        {
            entry.remove();
        }
    }
}

/// The first key of a script. `None`: the command runs no script, or its script has no key.
pub(super) fn script_key(command: &Cmd) -> Option<&[u8]> {
    let word = |place| match command.args_iter().nth(place) {
        Some(Arg::Simple(word)) => Some(word),
        _ => None,
    };
    let is_script = [&b"EVALSHA"[..], b"EVAL"].contains(&word(0)?);
    word(3).filter(|_| is_script && word(2) != Some(b"0"))
}

/// A command is about to leave.
pub(super) fn leaves(command: &Cmd) -> RedisResult<()> {
    let Some(progress) = progress_of(command) else { return Ok(()) };
    let mut progress = progress.lock();
    if !matches!(*progress, Progress::Unsent) {
        return Err(unknown("it was sent before, and its answer is lost"));
    }
    *progress = Progress::Sent;
    Ok(())
}

/// A command was answered, or its connection broke. Error replies are answers.
pub(super) fn answered(command: &Cmd, answer: &RedisResult<Value>) {
    let Some(progress) = progress_of(command) else { return };
    match answer {
        Ok(Value::ServerError(_)) => *progress.lock() = Progress::Unsent,
        Ok(_) => {}
        Err(error) => *progress.lock() = Progress::Failed(error.clone()),
    }
}

/// `None`: the command is one of the client library itself, or nobody waits for its script any
/// longer. The client library drops such a script, except one that it is about to send: the caller
/// cleans up after that one.
fn progress_of(command: &Cmd) -> Option<Arc<Mutex<Progress>>> {
    script_key(command)?;
    scripts()?.get(&identity(command)).cloned()
}

/// An error that the client library does not answer with another try.
fn unknown(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> RedisError {
    io::Error::new(io::ErrorKind::Unsupported, why).into()
}

fn identity(command: &Cmd) -> Identity {
    match command.args_iter().next() {
        Some(Arg::Simple(text)) => text.as_ptr().addr(),
        _ => 0,
    }
}

/// The scripts of this process. `None`: it was forked too often to have a client.
fn scripts() -> Option<MutexGuard<'static, Scripts>> {
    SCRIPTS.of(process::id(), Mutex::default).ok().map(Mutex::lock)
}

#[cfg(test)]
mod tests {
    use deadpool_redis::redis::{RetryMethod, cmd};

    use super::*;
    use crate::backend::redis::connection::{diagnose, value};

    fn broken() -> RedisError {
        io::Error::from(io::ErrorKind::BrokenPipe).into()
    }

    fn refused() -> RedisError {
        (ErrorKind::ClusterConnectionNotFound, "none").into()
    }

    fn script() -> Cmd {
        let mut script = cmd("EVALSHA");
        script.arg("digest").arg(1).arg("key").arg("owner");
        script
    }

    fn is_unknown(error: &RedisError) -> bool {
        diagnose("node", error).broke()
    }

    #[test]
    fn a_command_whose_outcome_is_unknown_does_not_leave_again() {
        let answers = [Err(broken()), Err((ErrorKind::Parse, "nonsense").into()), value("+OK")];
        for answer in answers {
            let command = script();
            let sent = SentScript::new(&command);
            assert!(leaves(&command).is_ok());
            assert!(leaves(&command).is_err(), "it is on its way");
            answered(&command, &answer);
            let again = leaves(&command).unwrap_err();
            // What the client library does with an error is not part of its documentation.
            assert!(matches!(again.retry_method(), RetryMethod::NoRetry), "{again}");
            for last in [again, refused()] {
                let error = sent.meant(last);
                assert!(is_unknown(&error), "{error}");
                assert!(answer.as_ref().err().is_none_or(|first| first.kind() == error.kind()));
            }
        }
    }

    #[test]
    fn a_command_that_was_refused_may_leave_again() {
        let command = script();
        let sent = SentScript::new(&command);
        for error in [refused(), broken()] {
            assert!(!is_unknown(&sent.meant(error)), "it has not left");
        }
        for refusal in ["-MOVED 5 a:1", "-ASK 5 a:1", "-TRYAGAIN later"] {
            assert!(leaves(&command).is_ok());
            answered(&command, &value(refusal));
            assert!(!is_unknown(&sent.meant(refused())));
        }
        drop(sent);
        for _ in 0..2 {
            assert!(leaves(&command).is_ok(), "nobody has noted it");
        }
    }

    /// The client library has done with the first one before its caller looks.
    #[test]
    fn another_script_in_the_same_place_is_told_from_the_first() {
        let command = script();
        let first = SentScript::new(&command);
        assert!(leaves(&command).is_ok());
        answered(&command, &Err(broken()));
        let second = SentScript::new(&command);
        assert!(leaves(&command).is_ok(), "it is another one");
        answered(&command, &value("-MOVED 5 a:1"));
        assert!(is_unknown(&first.meant(refused())));
        drop(first);
        assert!(leaves(&command).is_ok());
        assert!(leaves(&command).is_err(), "the second one is still noted");
        drop(second);
    }

    #[test]
    fn the_first_key_of_a_script_says_where_it_goes() {
        assert_eq!(script_key(&script()), Some(&b"key"[..]));
        let mut empty = cmd("EVAL");
        empty.arg("return 1").arg(0).arg("a");
        assert_eq!(script_key(&empty), None);
        assert_eq!(script_key(cmd("GET").arg("a").arg("b").arg("c")), None);
    }
}
