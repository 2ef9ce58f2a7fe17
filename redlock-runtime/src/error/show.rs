//! How parts of error messages are written.

use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use super::node_error::{NodeError, NodeErrorKind};
use crate::foreign_text;

/// A duration for readers: `1.234 s`, `87 ms`.
pub(super) struct Seconds(pub(super) Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < Duration::from_secs(1) {
            write!(f, "{} ms", self.0.as_millis())
        } else {
            write!(f, "{:.1} s", self.0.as_secs_f64())
        }
    }
}

/// So many of something.
pub(super) struct Count(pub(super) u32, pub(super) &'static str);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(count, what) = self;
        write!(f, "{count} {what}{}", if *count == 1 { "" } else { "s" })
    }
}

/// Who has the lock, whether that is the client itself, and for how long at least, unless it is
/// renewed.
pub(super) struct HeldBy<'a>(
    pub(super) Option<&'a str>,
    pub(super) bool,
    pub(super) Option<Duration>,
);

impl fmt::Display for HeldBy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(holder) = self.0 else { return Ok(()) };
        let shown = foreign_text::shown(holder);
        match self.2.map(Seconds) {
            None if is_retained(holder) => {
                write!(f, "; nobody holds it: its `min_hold` is not over ({shown})")
            }
            Some(left) if is_retained(holder) => {
                write!(
                    f,
                    "; nobody holds it: its `min_hold` is not over for another {left} ({shown})"
                )
            }
            left => {
                if self.1 {
                    write!(f, "; held by this client itself ({shown})")?;
                } else {
                    write!(f, "; held by {shown}")?;
                }
                left.map_or(Ok(()), |left| write!(f, ", {} {left} left", whose_lease(holder)))
            }
        }
    }
}

/// Why a reader does not get in beside readers.
pub(super) struct CameFirst(pub(super) bool);

impl fmt::Display for CameFirst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = "; a writer, or another call that cannot share it, came before this one";
        if self.0 { f.write_str(why) } else { Ok(()) }
    }
}

/// Which lease the time is of: that of an owner, or one of a group such as `3 readers`. An owner
/// value never ends like that.
fn whose_lease(holder: &str) -> &'static str {
    match holder.rsplit(' ').next() {
        Some("readers") => "of whose leases the last has",
        Some("permits") => "of whose leases one has",
        _ => "whose lease has",
    }
}

/// What to do about a lock that is taken.
pub(super) struct WayOut {
    pub(super) is_endless: bool,
    pub(super) is_own: bool,
}

impl fmt::Display for WayOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_endless {
            return f.write_str(
                "its key has no expiry, and does not end by itself: another program has set it, or \
                 has taken its expiry away, which a holder that is alive gives back; delete it \
                 where nobody holds it, or use another prefix",
            );
        }
        if self.is_own {
            f.write_str(
                "if that call waits for this one, call below its guard's `protect`, or carry the \
                 lease into this task with `Lease::scope`; otherwise ",
            )?;
        }
        f.write_str("wait longer, or let the caller try again later")
    }
}

/// Where a call stood in the wait queue.
pub(super) struct Place(pub(super) Option<NonZeroU32>);

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |position| write!(f, "; place {position} of the queue"))
    }
}

/// So many keys that a task held are named.
const HELD_SHOWN: usize = 8;

/// What a task held while it waited in vain for the second field. A hold of that key is one of
/// another client: the call would have re-entered one of its own client.
pub(super) struct WhileHolding<'a>(pub(super) &'a [String], pub(super) &'a str);

impl fmt::Display for WhileHolding<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(held, wanted) = self;
        let others = || held.iter().filter(|key| key != wanted);
        if others().count() < held.len() {
            f.write_str(
                "; this task holds a lock of this key with another client: if both clients have \
                 one server and one prefix, it waits for itself, so use one client for both",
            )?;
        }
        for (i, key) in others().take(HELD_SHOWN).enumerate() {
            write!(f, "{}`{key}`", if i == 0 { "; this task holds " } else { ", " })?;
        }
        match others().count() {
            0 => return Ok(()),
            1..=HELD_SHOWN => {}
            count => write!(f, " and {} others", count - HELD_SHOWN)?,
        }
        f.write_str(" meanwhile: the holder may wait for that, so nest locks in one order")
    }
}

/// Is it an owner value of a lock that nobody holds, and that stays taken (`Owner::retained`)?
pub(super) fn is_retained(holder: &str) -> bool {
    holder.rsplit_once(':').is_some_and(|(name, _)| name.ends_with(":retained"))
}

/// The errors of the nodes about a lock. A client that starts up has no lock, and gets advice, too.
pub(super) struct NodeList<'a>(pub(super) &'a [NodeError], pub(super) &'a str);

impl fmt::Display for NodeList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(nodes, key) = self;
        for (i, node) in nodes.iter().enumerate() {
            let separator = if i == 0 { "" } else { "; " };
            write!(f, "{separator}{node}")?;
        }
        let is_here = |node: &NodeError| {
            let hosts = ["//127.0.0.1", "//localhost", "//[::1]"];
            node.kind() == NodeErrorKind::Unreachable
                && !node.is_out_of_descriptors()
                && hosts.iter().any(|host| node.node().contains(host))
        };
        if key.is_empty() && nodes.iter().any(is_here) {
            f.write_str("; to try it out, start one with `redis-server`")?;
        }
        Ok(())
    }
}

/// Which lock a failure is about; a client that starts up has none.
pub(super) struct On<'a>(pub(super) &'a str);

impl fmt::Display for On<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, " for lock `{}`", self.0) }
    }
}

/// The keys that were wanted with another one; a few of them are named.
pub(super) struct Wanted<'a>(pub(super) &'a [String]);

impl fmt::Display for Wanted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 3;
        for (i, key) in self.0.iter().take(SHOWN).enumerate() {
            let separator = if i == 0 { "" } else { ", " };
            write!(f, "{separator}`{key}`")?;
        }
        match self.0.len() {
            1 => f.write_str(" was"),
            ..=SHOWN => f.write_str(" were"),
            count => write!(f, " and {} others were", count - SHOWN),
        }
    }
}
