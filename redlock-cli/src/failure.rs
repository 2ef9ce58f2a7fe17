//! Exit codes, and failures with what to print on stderr.

use redlock::{LockError, NodeError};
use rustix::io::Errno;

/// The lock is held by another process (`EX_TEMPFAIL`); `-E` names another code.
pub(crate) const BUSY: u8 = 75;
/// Redis cannot be reached, or refuses (`EX_UNAVAILABLE`).
pub(crate) const UNAVAILABLE: u8 = 69;
/// The lock was lost: the command was ended, or worked without it, or may have (`EX_PROTOCOL`).
pub(crate) const LOST: u8 = 76;
/// The command line or a setting is wrong (`EX_USAGE`).
pub(crate) const USAGE: u8 = 64;
/// The operating system refused something (`EX_OSERR`).
pub(crate) const SYSTEM: u8 = 71;
/// The reader of stdout has gone: as of a program that SIGPIPE ends.
pub(crate) const UNREAD: u8 = 141;
/// The command was found and cannot be run, as in shells.
pub(crate) const CANNOT_RUN: u8 = 126;
/// The command was not found, as in shells.
pub(crate) const NOT_FOUND: u8 = 127;
/// Added to the number of a signal, as in shells.
const OF_SIGNAL: u8 = 128;

/// The exit code that stands for a signal, as in shells.
pub(crate) fn of_signal(number: i32) -> u8 {
    OF_SIGNAL.saturating_add(u8::try_from(number).unwrap_or(u8::MAX))
}

/// Why a command ends, and with which exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    /// For stderr; empty: nothing to say.
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// Servers cannot be asked. Where this machine has no descriptor left, that is no fault of
    /// theirs.
    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        let message = message.into();
        Self::new(if lacks_descriptors(&message) { SYSTEM } else { UNAVAILABLE }, message)
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(USAGE, message)
    }
}

/// Does an error of the system say that too many files are open?
pub(crate) fn lacks_descriptors(message: &str) -> bool {
    let errors = [Errno::MFILE, Errno::NFILE].map(|error| std::io::Error::from(error).to_string());
    errors.iter().any(|error| message.contains(error))
}

impl From<LockError> for Failure {
    fn from(error: LockError) -> Self {
        let message = in_own_words(&error.to_string());
        let code = match &error {
            LockError::Config { .. } | LockError::InvalidKey { .. } => USAGE,
            LockError::BackgroundThread { .. } => SYSTEM,
            LockError::Lost { .. } => LOST,
            error if error.is_busy() => BUSY,
            _ => return Self::unavailable(message),
        };
        Self::new(code, message)
    }
}

/// What the library advises to call in a program, and what there is on a command line instead.
const OWN_WORDS: [(&str, &str); 14] = [
    ("`master_name` is what", "REDLOCK_SENTINEL is what"),
    ("leave it out: options are set on the builder", "leave it out"),
    (
        "`Tls` adds a private CA and a client certificate",
        "REDLOCK_TLS_CA names a private CA, REDLOCK_TLS_CERT and REDLOCK_TLS_KEY a client \
         certificate",
    ),
    ("`Tls` adds a private CA", "REDLOCK_TLS_CA names a private CA"),
    (
        "REDLOCK_TLS_KEY and `client_cert_files` take the name of a file, `client_cert_pem` takes \
         the key itself",
        "REDLOCK_TLS_KEY takes the name of a file",
    ),
    ("the CA of `Tls`", "the file that REDLOCK_TLS_CA names"),
    ("the client certificate of `Tls`", "the file that REDLOCK_TLS_CERT names"),
    ("the client key of `Tls`", "the file that REDLOCK_TLS_KEY names"),
    ("the certificates of `Tls`", "the files that REDLOCK_TLS_CA and REDLOCK_TLS_CERT name"),
    (
        "though `tls` is set; write `rediss://`, or leave `tls` out",
        "though REDLOCK_TLS_CA, REDLOCK_TLS_CERT or REDLOCK_TLS_KEY is set; write `rediss://`, or \
         leave them out",
    ),
    ("on the builder they are `.urls([..])`", "`--url` is there once for each"),
    ("; `restart_guard(false)` is for servers that lose nothing", ""),
    (" (or build the client without the guard: `restart_guard(false)`)", ""),
    (", or do without the guard: `restart_guard(false)`", ""),
];

/// A message of the library, without advice that only a program can follow.
pub(crate) fn in_own_words(message: &str) -> String {
    OWN_WORDS.iter().fold(message.to_owned(), |told, (theirs, own)| told.replace(theirs, own))
}

/// The error of a server, as it is printed.
pub(crate) fn told(error: &NodeError) -> String {
    in_own_words(&error.to_string())
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        // `redlock ls | head`.
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            return Self::new(UNREAD, "");
        }
        let message = error.to_string();
        let is_lack = lacks_descriptors(&message);
        let advice = if is_lack { "; raise the limit of open files (`ulimit -n`)" } else { "" };
        Self::new(SYSTEM, message + advice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lack_of_descriptors_is_no_fault_of_a_server() {
        for lack in [Errno::MFILE, Errno::NFILE] {
            let failure = Failure::from(std::io::Error::from(lack));
            assert!(failure.message.ends_with("(`ulimit -n`)"), "{failure:?}");
            assert_eq!(
                (failure.code, Failure::unavailable(failure.message).code),
                (SYSTEM, SYSTEM)
            );
        }
        let other = Failure::from(std::io::Error::from(Errno::ACCESS));
        assert!(other.code == SYSTEM && !other.message.contains("ulimit"), "{other:?}");
        assert_eq!(Failure::unavailable("Connection refused").code, UNAVAILABLE);
    }

    #[test]
    fn no_advice_is_for_programs_only() {
        for (theirs, own) in [
            (
                "n: it needs +info (or build the client without the guard: `restart_guard(false)`)",
                "n: it needs +info",
            ),
            (
                "n: no time (name the server itself, not a proxy that changes its answers, or do \
                 without the guard: `restart_guard(false)`)",
                "n: no time (name the server itself, not a proxy that changes its answers)",
            ),
            (
                "n: restarted (it votes again by itself; `restart_guard(false)` is for servers \
                 that lose nothing)",
                "n: restarted (it votes again by itself)",
            ),
        ] {
            assert_eq!(in_own_words(theirs), own);
        }
    }
}
