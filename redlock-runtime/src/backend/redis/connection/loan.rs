//! A connection on loan, and whether it answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::batching::Batching;
use super::kept_open::{KeptConnection, KeptOpen};
use crate::backend::redis::clock::CLOCK;
use crate::clock::Moment;

/// A connection that is silent for this long is given up, however long it took to be made.
pub(crate) const LONGEST_SILENCE: Duration = Duration::from_secs(1);
/// After a look at a connection, its commands are given to it for this long without another one.
const LOOKED_AT: Duration = Duration::from_millis(1);

/// A connection on loan. Clones share the socket; commands are pipelined in the order of sending.
#[derive(Clone)]
pub(crate) struct Loan<C> {
    pub(crate) connection: Batching<C>,
    silence: Arc<Silence>,
}

/// Whether a connection answers.
struct Silence {
    /// When the first command was sent that its caller gave up without a reply, in nanoseconds.
    /// Zero: the last awaited command was answered.
    since: AtomicU64,
    /// How long the silence may last. Making the connection took more than one round trip: a
    /// command that was awaited for less time has not shown that the connection is broken.
    longest: Duration,
    /// When it was last made sure that the connection has not ended, in nanoseconds.
    looked_at: AtomicU64,
    /// A clean-up was not answered: the connection is no longer used.
    is_given_up: AtomicBool,
    /// Whether it is kept for clean-ups on it.
    kept: KeptConnection,
}

impl<C> Loan<C> {
    /// A connection that has just been made, which took so long.
    pub(super) fn new(connection: Batching<C>, took: Duration) -> Self {
        let silence = Arc::new(Silence {
            since: AtomicU64::new(0),
            longest: took.min(LONGEST_SILENCE),
            looked_at: AtomicU64::new(CLOCK.now().nanos()),
            is_given_up: AtomicBool::new(false),
            kept: KeptConnection::default(),
        });
        Self { connection, silence }
    }

    /// The connection answers.
    pub(crate) fn heard(&self) {
        if self.silence.since.load(Ordering::Relaxed) != 0 {
            self.silence.since.store(0, Ordering::Relaxed);
        }
    }

    /// The connection does not answer, as a clean-up has shown: whoever needs one makes another.
    pub(crate) fn give_up(&self) {
        self.silence.is_given_up.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_given_up(&self) -> bool {
        self.silence.is_given_up.load(Ordering::Relaxed)
    }

    /// A clean-up waits on, though the connection does not answer. It has to let go of the
    /// connection when this is cancelled.
    pub(crate) fn keep_open(&self, among: &KeptOpen) -> CancellationToken {
        among.keep(&self.silence.kept)
    }

    /// Do its replies no longer count, as another server took the place of the one that it led to?
    pub(crate) fn is_superseded(&self) -> bool {
        self.connection.met().superseded.is_set()
    }

    /// How long its silence may last.
    pub(super) fn longest_silence(&self) -> Duration {
        self.silence.longest
    }

    /// Notes that the caller of a command that was `sent` has gone without a reply. Returns whether
    /// the connection has been silent for too long.
    pub(super) fn note_silence(&self, sent: Moment, now: Moment) -> bool {
        let Silence { since, longest, .. } = &*self.silence;
        let first =
            match since.compare_exchange(0, sent.nanos(), Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => sent,
                Err(first) => Moment::from_nanos(first),
            };
        now.since(first) >= *longest
    }

    /// Notes that the caller makes sure now that the connection has not ended. Returns whether that
    /// was done a moment ago, so that the caller need not.
    pub(super) fn note_look(&self, now: Moment) -> bool {
        let looked_at = &self.silence.looked_at;
        let is_recent =
            now.since(Moment::from_nanos(looked_at.load(Ordering::Relaxed))) < LOOKED_AT;
        if !is_recent {
            looked_at.store(now.nanos(), Ordering::Relaxed);
        }
        is_recent
    }

    /// Do both share the socket?
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.silence, &other.silence)
    }
}
