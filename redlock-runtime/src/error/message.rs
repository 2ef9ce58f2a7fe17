//! Messages of errors: the whole message for operators, and a short one for users of a service.

use std::fmt;

use super::lock_error::LockError;
use super::show::{
    CameFirst, Count, HeldBy, NodeList, On, Place, Seconds, Wanted, WayOut, WhileHolding,
    is_retained,
};
use crate::state::LostReason;

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotInitialized => f.write_str(
                "redlock is not initialized; call \
                 `redlock::init(\"redis://127.0.0.1:6379\").await?` once at startup, before the \
                 first locked call; a task that was spawned inside of a `Redlock::scope` needs a \
                 scope of its own",
            ),
            Self::AlreadyInitialized => f.write_str(
                "redlock is already initialized; use `redlock::global()`, or a client of its own \
                 from `Redlock::builder()`; in a test, `Redlock::scope` makes such a client the \
                 global one",
            ),
            Self::Config { message } => write!(f, "redlock configuration: {message}"),
            Self::InvalidKey { key, reason } => write!(f, "invalid lock key {key:?}: {reason}"),
            Self::Unavailable { key, nodes } => {
                write!(f, "redis is unavailable{}: {}", On(key), NodeList(nodes, key))
            }
            Self::ForkedProcess => f.write_str(
                "this process was forked from the one that made this redlock client, where its \
                 connections and its locks stay; call `redlock::init` again in the child, or \
                 build another client",
            ),
            Self::BackgroundThread { message } => {
                write!(f, "the background thread of redlock failed: {message}")
            }
            Self::Timeout { .. }
            | Self::Lost { .. }
            | Self::TooManyWaiters { .. }
            | Self::ShuttingDown { .. }
            | Self::AlreadyHeld { .. }
            | Self::InTask { .. }
            | Self::TurnTaken { .. }
            | Self::ExpireTooShort { .. } => self.write_about_key(f),
        }
    }
}

impl LockError {
    fn write_about_key(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timeout {
                key,
                waited,
                attempts,
                holder,
                is_own,
                remaining,
                is_endless,
                position,
                is_kept_out,
                while_holding,
            } => {
                let is_kept = holder.as_deref().is_some_and(is_retained);
                let holder = HeldBy(holder.as_deref(), *is_own, *remaining);
                let (place, first) = (Place(*position), CameFirst(*is_kept_out));
                let holding = WhileHolding(while_holding, key);
                write!(
                    f,
                    "lock `{key}` was not free within {} ({}){holder}{first}{place}{holding}; {}",
                    Seconds(*waited),
                    Count(*attempts, "attempt"),
                    WayOut { is_endless: *is_endless, is_own: *is_own && !is_kept },
                )
            }
            Self::Lost { key, reason: LostReason::Released, held_for, .. } => write!(
                f,
                "lock `{key}` was released after {}; a lease handle, or a call inside of its hold, \
                 outlived it",
                Seconds(*held_for)
            ),
            Self::Lost { key, reason, held_for, renewals } => write!(
                f,
                "lock `{key}` was lost after {}: {reason} ({}); {}",
                Seconds(*held_for),
                Count(*renewals, "renewal"),
                reason.advice()
            ),
            _ => self.write_about_call(f),
        }
    }

    /// The call itself could not be served.
    fn write_about_call(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyWaiters { key } => write!(
                f,
                "too many calls of this client wait for locks, `{key}` would be one more; shed \
                 load, or raise `max_waiters`"
            ),
            Self::ShuttingDown { key } => write!(
                f,
                "lock `{key}` is neither waited for nor led any more: this client is shutting down \
                 (`Redlock::drain`, or `shutdown`); let another instance do the work, or call \
                 again later"
            ),
            Self::AlreadyHeld { key, reason, with } => {
                write!(f, "lock `{key}` is already held by this task")?;
                if !with.is_empty() {
                    write!(f, ", and {} wanted with it", Wanted(with))?;
                }
                write!(f, ", which would wait for itself: {reason}")
            }
            Self::InTask { key } => {
                if key.is_empty() {
                    f.write_str("a client cannot be made")?;
                } else {
                    write!(f, "lock `{key}` cannot be waited for")?;
                }
                f.write_str(
                    " by blocking this thread, on which tokio polls tasks; await the asynchronous \
                     function, or call this one in `tokio::task::spawn_blocking`",
                )?;
                if key.is_empty() {
                    return Ok(());
                }
                f.write_str(
                    "; if this task holds locks, call it there inside of `Lease::within`, or the \
                     closure does not know them",
                )
            }
            Self::TurnTaken { key, waited } => write!(
                f,
                "lock `{key}` is held by this task, and another call inside of that hold was not \
                 done within {}: is it still polled, or does it wait for this one? Calls below a \
                 guard that re-entered belong into its `protect`",
                Seconds(*waited)
            ),
            Self::ExpireTooShort { key, took, expire } => write!(
                f,
                "lock `{key}` was granted after {}, too late for its `expire` of {}; choose a \
                 longer `expire`, or find what keeps redis, or the thread of this task, busy",
                Seconds(*took),
                Seconds(*expire)
            ),
            _ => Ok(()),
        }
    }

    /// What happened, for readers outside of the service: without addresses of servers, host names
    /// and process ids, which the whole message has.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// let redlock = redlock::Redlock::builder().url("redis://10.0.0.7:1").lazy().build().await?;
    /// let error = redlock.lock("stock-42").try_acquire().await.unwrap_err();
    /// assert!(error.to_string().contains("10.0.0.7"));
    /// assert_eq!(error.public_message(), "lock `stock-42` is unavailable at the moment");
    /// # Ok(()) }
    /// ```
    pub fn public_message(&self) -> String {
        match self {
            Self::Timeout { key, .. } => format!("lock `{key}` is busy; try again later"),
            Self::Lost { key, reason, .. } if *reason != LostReason::Released => {
                format!("lock `{key}` was lost, and the work was stopped")
            }
            Self::ExpireTooShort { key, .. } => {
                format!("lock `{key}` is unavailable at the moment")
            }
            Self::Unavailable { key, .. } if !key.is_empty() => {
                format!("lock `{key}` is unavailable at the moment")
            }
            Self::TooManyWaiters { key } => {
                format!("too many calls wait for locks such as `{key}`")
            }
            Self::ShuttingDown { .. } => "the service is shutting down; try again later".to_owned(),
            Self::AlreadyHeld { key, .. } | Self::TurnTaken { key, .. } => {
                format!("lock `{key}` is in use by this request already")
            }
            Self::InvalidKey { .. } => "a value of this request cannot be used".to_owned(),
            Self::Lost { key, .. } | Self::InTask { key } => {
                format!("lock `{key}` cannot be used like this")
            }
            Self::Unavailable { .. }
            | Self::NotInitialized
            | Self::AlreadyInitialized
            | Self::Config { .. }
            | Self::ForkedProcess
            | Self::BackgroundThread { .. } => "locks are unavailable".to_owned(),
        }
    }
}

impl fmt::Debug for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::time::Duration;

    use super::*;
    use crate::error::{InvalidKeyReason, NodeError, NodeErrorKind};

    #[test]
    fn main_prints_the_message() {
        let node = |name| NodeError::new(name, NodeErrorKind::Unreachable, "refused");
        let at_startup = |name| {
            format!("{:?}", LockError::Unavailable { key: String::new(), nodes: vec![node(name)] })
        };
        let seen = at_startup("redis://127.0.0.1:6379");
        assert!(
            seen.starts_with("redis is unavailable: redis://127.0.0.1:6379: refused"),
            "{seen}"
        );
        assert!(seen.contains("start one with `redis-server`"), "{seen}");
        assert!(!at_startup("redis://db.prod:1").contains("redis-server"));
        let node = node("redis://localhost:6379");
        let later = LockError::Unavailable { key: "stock-42".into(), nodes: vec![node] };
        assert!(!later.to_string().contains("redis-server"), "{later}");
    }

    /// Servers that this process cannot ask may be well.
    #[test]
    fn a_lack_of_descriptors_blames_no_server() {
        let message = "Too many open files (os error 24)";
        let node = NodeError::new("redis://127.0.0.1:1", NodeErrorKind::Unreachable, message);
        let error = LockError::Unavailable { key: String::new(), nodes: vec![node] }.to_string();
        assert!(error.contains("(os error 24) (raise the limit of open files"), "{error}");
        assert!(!error.contains("redis-server") && !error.contains("running"), "{error}");
    }

    /// A client of `cluster` needs no advice to become one.
    #[test]
    fn a_slot_that_is_being_moved_is_told_as_that() {
        let told = |node| NodeError::new(node, NodeErrorKind::Cluster, "TRYAGAIN").to_string();
        assert!(told("cluster redis://a:1").contains("being moved"));
        assert!(told("redis://a:1").contains("`.cluster(urls)`"));
    }

    /// Users can do nothing about keys, options and hash tags.
    #[test]
    fn a_bad_key_is_told_to_users_without_what_it_is() {
        let key = "stock-{".to_owned();
        let error =
            LockError::InvalidKey { key, reason: InvalidKeyReason::ReservedSuffix(":queue") };
        let text = error.public_message();
        assert!(text.contains("cannot be used") && !text.contains("stock-{"), "{text}");
        assert!(!text.contains("lock key") && !text.contains("redis"), "{text}");
    }

    /// A server or a thread that was busy is no mistake of whoever asked.
    #[test]
    fn a_grant_that_came_too_late_is_told_to_users_as_an_outage() {
        let key = "stock-42".to_owned();
        let (took, expire) = (Duration::from_secs(2), Duration::from_secs(1));
        let text = LockError::ExpireTooShort { key, took, expire }.public_message();
        assert_eq!(text, "lock `stock-42` is unavailable at the moment");
    }

    #[test]
    fn what_a_key_lacks_comes_with_what_to_do() {
        for (reason, advice) in [
            (InvalidKeyReason::Empty, "name what is locked, as in `stock-42`"),
            (InvalidKeyReason::EmptyValue("id"), "check the value before the call"),
            (InvalidKeyReason::ReservedSuffix(":queue"), "append something to it"),
            (InvalidKeyReason::UnbalancedBrace, "write the braces as `{tag}`, or leave them out"),
            (InvalidKeyReason::Display, "correct its `fmt`"),
        ] {
            let error = LockError::InvalidKey { key: "k".into(), reason };
            assert!(error.to_string().ends_with(advice), "{error}");
        }
    }

    #[test]
    fn messages_name_the_key_the_reason_and_the_next_step() {
        let busy = |holder: &str, remaining, position| LockError::Timeout {
            key: "stock-42".into(),
            waited: Duration::from_millis(5_012),
            attempts: 31,
            holder: Some(holder.into()),
            is_own: holder.starts_with("me:"),
            remaining,
            is_endless: holder == "foo",
            position: NonZeroU32::new(position),
            is_kept_out: holder == "3 readers",
            while_holding: Box::default(),
        };
        assert_eq!(
            busy("web-3-4121:abc", None, 0).to_string(),
            "lock `stock-42` was not free within 5.0 s (31 attempts); held by web-3-4121:abc; \
             wait longer, or let the caller try again later"
        );
        let twelve = Some(Duration::from_secs(12));
        for (holder, position, said) in [
            (
                "web-3:abc",
                3,
                "; held by web-3:abc, whose lease has 12.0 s left; place 3 of the queue; ",
            ),
            ("me:abc", 0, "; held by this client itself (me:abc), whose lease has 12.0 s left; i"),
            ("3 readers", 0, "; held by 3 readers, of whose leases the last has 12.0 s left; a w"),
            ("3 readers", 0, " or another call that cannot share it, came before this one; wait"),
            ("1 reader", 0, "; held by 1 reader, whose lease has 12.0 s left; wait"),
            ("2 permits", 0, "; held by 2 permits, of whose leases one has 12.0 s left; wait"),
            (
                "w:retained:abc",
                1,
                "`min_hold` is not over for another 12.0 s (w:retained:abc); place 1 of the queue",
            ),
        ] {
            let message = busy(holder, twelve, position).to_string();
            assert!(message.contains(said), "{message}");
        }
        let own = busy("me:abc", twelve, 0).to_string();
        assert!(own.contains("if that call waits for this one"), "{own}");
        assert!(own.contains("`protect`") && own.contains("`Lease::scope`"), "{own}");
        let foreign = busy("foo", None, 0).to_string();
        let told = "; held by foo; its key has no expiry, and does not end by itself";
        assert!(foreign.contains(told) && !foreign.contains("wait longer"), "{foreign}");
        assert!(!busy("you:abc", twelve, 0).to_string().contains("`protect`"));
        let lost = LockError::Lost {
            key: "stock-42".into(),
            reason: LostReason::RenewalLimit,
            held_for: Duration::from_millis(900),
            renewals: 2,
        };
        assert_eq!(
            lost.to_string(),
            "lock `stock-42` was lost after 900 ms: the lease ran out, and no renewals are left (2 \
             renewals); \
             raise `max_renew` or `expire` if the work may take longer"
        );
    }
}
