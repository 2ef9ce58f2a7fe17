//! The owner value: who holds a key, unique to every acquisition.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use uuid::Uuid;

/// The value that stands in Redis while a lock is held: `<client name>:<random>`.
///
/// Fresh for every attempt, never used again: the proofs of the protocol rest on it, and a late
/// command of an old attempt can never touch a newer lock.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Owner(Arc<str>);

impl Owner {
    /// A fresh owner value. The random part has 122 bits from the operating system.
    pub(crate) fn fresh(client_name: &str) -> Self {
        Self(format!("{client_name}:{}", Uuid::new_v4().simple()).into())
    }

    /// Does a value look like one of ours, rather than like another library's?
    pub(crate) fn is_likely(value: &str) -> bool {
        let random = value.rsplit_once(':').map_or("", |(_, random)| random);
        random.len() == 32 && random.bytes().all(|byte| byte.is_ascii_hexdigit())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Owner {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// `<host>-<pid>`: enough for an operator who reads a key to find the process that holds it.
pub(crate) fn default_client_name() -> String {
    format!("{}-{}", host_name(), std::process::id())
}

#[cfg(unix)]
fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(not(unix))]
fn host_name() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_else(|_| "unknown-host".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_owner_is_fresh_and_names_the_client() {
        let (a, b) = (Owner::fresh("web-3"), Owner::fresh("web-3"));
        assert_ne!(a, b);
        assert!(a.as_str().starts_with("web-3:"));
        assert_eq!(a.as_str().len(), "web-3:".len() + 32);
    }

    #[test]
    fn owners_of_other_libraries_are_told_apart() {
        assert!(Owner::is_likely(Owner::fresh("web-3:a").as_str()));
        for foreign in ["", "1", "0123456789abcdef0123456789abcdef", "redsync:x", "a:b"] {
            assert!(!Owner::is_likely(foreign), "{foreign}");
        }
    }

    #[test]
    fn the_default_name_ends_with_the_process_id() {
        assert!(default_client_name().ends_with(&format!("-{}", std::process::id())));
    }
}
