//! What the candidates of the leadership tests do.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use redlock::{Lease, Redlock};

use crate::fault_kit::runtime;
use crate::fault_store::{Store, watched};
use crate::support::Raw;
use crate::support::process::{Args, emit};

/// Campaigns until it is killed, and counts in a fenced store while it leads: url of the locks, url
/// of the store, prefix, key, expire in ms, name, counter. Tells of each election, of each count,
/// and how many steps it began too late.
pub fn lead(args: &Args) {
    runtime().block_on(async {
        let expire = Duration::from_millis(args.parse(4));
        let builder = Redlock::builder().url(args.get(0)).prefix(args.get(2));
        let redlock = builder.client_name(args.get(5)).lazy().build().await.expect("a client");
        let store = Store::new(Raw::new(args.get(1)), args.get(6));
        emit("ready");
        let leads = redlock.lock(args.get(3)).expire(expire).lead(|lease| {
            emit(&format!("elected {}", lease.fencing_token()));
            count(lease, &store, expire)
        });
        let ended = leads.await.map(|never: ()| never);
        panic!("it campaigns no more: {ended:?}");
    });
}

/// Counts until it is stopped.
pub async fn count(lease: Lease, store: &Store, expire: Duration) {
    let late = AtomicUsize::new(0);
    let work = async {
        loop {
            if store.increment(&lease).await {
                emit(&format!("wrote {}", late.load(Ordering::Relaxed)));
            }
        }
    };
    let _told = TellLate(&late);
    watched(work, expire, &late).await;
}

/// Tells of late steps when a leader is stopped.
struct TellLate<'a>(&'a AtomicUsize);

impl Drop for TellLate<'_> {
    fn drop(&mut self) {
        emit(&format!("stopped {}", self.0.load(Ordering::Relaxed)));
    }
}
