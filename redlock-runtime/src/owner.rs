//! The owner value: it says who holds a key, and is unique to every acquisition.

use std::borrow::Borrow;
use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use uuid::Uuid;
use uuid::fmt::Simple;

use super::{process, shared_text};

/// What the owner values of one client begin with: `<client name>:<eight random digits>`.
///
/// The server takes the queue entries of a client out by it, when the client has not claimed a lock
/// that was handed to it: the name alone may be that of several processes.
#[derive(Debug)]
pub(crate) struct ClientId {
    text: Box<str>,
}

impl ClientId {
    const DIGITS: usize = 8;

    pub(crate) fn new(client_name: &str) -> Self {
        let mut random = [0; Simple::LENGTH];
        let random: &str = random_uuid().as_simple().encode_lower(&mut random);
        let text = format!("{client_name}:{}", &random[..Self::DIGITS]);
        Self { text: text.into() }
    }

    /// Is it an owner value of this client?
    pub(crate) fn is_of(&self, owner: &str) -> bool {
        owner.starts_with(&*self.text)
    }

    pub(crate) fn name(&self) -> &str {
        &self.text[..self.text.len() - Self::DIGITS - 1]
    }
}

/// The value of the lock's key in Redis while the lock is held: `<client name>:<32 hexadecimal
/// digits>`. The first eight are those of its client.
///
/// Fresh for every acquisition, never used again: the proofs of the protocol rest on it, and a late
/// command of an old acquisition can never touch a newer lock.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Owner(Arc<str>);

impl Owner {
    /// A fresh owner value. What follows the digits of the client has 90 bits from the operating
    /// system.
    pub(crate) fn fresh(client: &ClientId) -> Self {
        let mut random = [0; Simple::LENGTH];
        let random: &str = random_uuid().as_simple().encode_lower(&mut random);
        Self(shared_text::join([&client.text, &random[ClientId::DIGITS..]]))
    }

    /// The owner value number `number` for the same hold, on one of several servers that may still
    /// get commands for the others: it differs from them in its last digits only, so that it can be
    /// seen whose it is. No other owner has it: 66 random bits stand before these digits.
    pub(crate) fn another(&self, number: u32) -> Self {
        let hold = hold_of(&self.0);
        let own = u32::from_str_radix(&self.0[hold.len()..], 16).unwrap_or(0);
        let digits = own.wrapping_add(number) % (1 << (4 * NUMBER_DIGITS));
        Self(format!("{hold}{digits:0NUMBER_DIGITS$x}").into())
    }

    /// An owner value of a client of its own.
    #[cfg(any(test, feature = "test-util"))]
    pub(crate) fn of_nobody(client_name: &str) -> Self {
        Self::fresh(&ClientId::new(client_name))
    }

    /// An owner whose value is known.
    #[cfg(test)]
    pub(crate) fn called(owner: &str) -> Self {
        Self(owner.into())
    }

    /// Does a value look like an owner value of this library?
    pub(crate) fn is_likely(value: &str) -> bool {
        let random = value.rsplit_once(':').map_or("", |(_, random)| random);
        random.len() == 32 && random.bytes().all(|byte| byte.is_ascii_hexdigit())
    }

    /// The value of a lock that stays taken after this owner has let go of it:
    /// `web-3:retained:9f0c`.
    pub(crate) fn retained(&self) -> String {
        let (name, random) = self.0.rsplit_once(':').unwrap_or(("", &self.0));
        format!("{name}{RETAINED}:{random}")
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// How many digits at the end of an owner value tell those of one hold apart.
const NUMBER_DIGITS: usize = 6;

/// What the owner values of one hold on several servers have in common.
pub(crate) fn hold_of(owner: &str) -> &str {
    if Owner::is_likely(owner) { &owner[..owner.len() - NUMBER_DIGITS] } else { owner }
}

/// What the name of a client has at its end in the value of a lock that it has let go of.
pub(crate) const RETAINED: &str = ":retained";

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

/// Random bytes of the operating system, fetched for many owners at once: a system call for each
/// would show in the cost of a lock. A child of a fork has a copy of them, which it must not use.
struct Stock {
    process: process::ProcessId,
    bytes: [u8; 64 * Self::EACH],
    used: usize,
}

impl Stock {
    const EACH: usize = 16;
    const EMPTY: Self = Self { process: 0, bytes: [0; 64 * Self::EACH], used: 64 * Self::EACH };

    fn take(&mut self) -> Result<Uuid, getrandom::Error> {
        let process = process::latest();
        if self.used == self.bytes.len() || self.process != process {
            getrandom::fill(&mut self.bytes)?;
            (self.used, self.process) = (0, process);
        }
        let mut taken = [0; Self::EACH];
        taken.copy_from_slice(&self.bytes[self.used..self.used + Self::EACH]);
        self.used += Self::EACH;
        Ok(uuid::Builder::from_random_bytes(taken).into_uuid())
    }
}

thread_local! {
    static STOCK: RefCell<Stock> = const { RefCell::new(Stock::EMPTY) };
}

/// Fresh in every process. `Uuid::new_v4` is not: with the feature `fast-rng` of `uuid`, which any
/// crate may switch on, the children of a process draw what it draws.
pub(crate) fn random_uuid() -> Uuid {
    let taken = STOCK.try_with(|stock| stock.borrow_mut().take());
    // The stock of a thread that is ending is gone.
    let taken = taken.unwrap_or_else(|_| {
        let mut stock = Stock::EMPTY;
        stock.take()
    });
    taken.unwrap_or_else(|error| panic!("the operating system has no random bytes: {error}"))
}

/// How many bytes this thread has used of its stock.
#[cfg(test)]
pub(crate) fn drawn() -> usize {
    STOCK.with_borrow(|stock| stock.used)
}

/// `<host>-<pid>`: enough for an operator to find the process that holds a key.
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
        let client = ClientId::new("web-3");
        let (a, b) = (Owner::fresh(&client), Owner::fresh(&client));
        assert_ne!(a, b);
        assert!(a.as_str().starts_with("web-3:") && client.name() == "web-3");
        assert_eq!(a.as_str().len(), "web-3:".len() + 32);
    }

    #[test]
    fn the_owners_of_one_client_begin_alike_and_those_of_others_do_not() {
        let (one, other) = (ClientId::new("web"), ClientId::new("web"));
        let client = |owner: &Owner| owner.as_str()[..owner.as_str().len() - 24].to_owned();
        let of = |id| client(&Owner::fresh(id));
        assert!(
            one.is_of(Owner::fresh(&one).as_str()) && !one.is_of(Owner::fresh(&other).as_str())
        );
        assert_eq!(of(&one), of(&one));
        assert_ne!(of(&one), of(&other));
    }

    #[test]
    fn the_owner_values_of_one_hold_are_alike_and_never_the_same() {
        let client = ClientId::new("web:3");
        let (owner, other) = (Owner::fresh(&client), Owner::fresh(&client));
        let last = Owner(format!("{}ffffff", hold_of(owner.as_str())).into());
        for owner in [owner, last] {
            let names: Vec<Owner> = (1..=300).map(|number| owner.another(number)).collect();
            for (index, name) in names.iter().enumerate() {
                assert!(*name != owner && !names[..index].contains(name), "{name:?}");
                assert!(Owner::is_likely(name.as_str()) && client.is_of(name.as_str()));
                assert_eq!(hold_of(name.as_str()), hold_of(owner.as_str()));
                assert_eq!(hold_of(&name.retained()), hold_of(&owner.retained()));
                assert_ne!(hold_of(name.as_str()), hold_of(other.as_str()));
            }
        }
        assert_eq!(hold_of("somebody:else"), "somebody:else");
    }

    #[test]
    fn owners_of_other_libraries_are_told_apart() {
        assert!(Owner::is_likely(Owner::of_nobody("web-3:a").as_str()));
        for foreign in ["", "1", "0123456789abcdef0123456789abcdef", "redsync:x", "a:b"] {
            assert!(!Owner::is_likely(foreign), "{foreign}");
        }
    }

    #[test]
    fn a_retained_lock_shows_who_has_let_go_of_it() {
        let owner = Owner::of_nobody("web:3");
        let retained = owner.retained();
        assert!(retained.starts_with("web:3:retained:"), "{retained}");
        assert!(retained != owner.as_str() && Owner::is_likely(&retained));
    }

    #[test]
    fn the_default_name_ends_with_the_process_id() {
        assert!(default_client_name().ends_with(&format!("-{}", std::process::id())));
    }
}
