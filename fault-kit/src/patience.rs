//! Time for which a test may wait: real time without the pauses of the machine.
//!
//! A machine that stands still for seconds, as shared ones do, has let nobody work meanwhile. A
//! thread counts how time passes; of the time between two of its looks, a [`LONGEST_TICK`] counts.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const TICK: Duration = Duration::from_millis(20);
const LONGEST_TICK: Duration = Duration::from_millis(100);

static MILLIS: AtomicU64 = AtomicU64::new(0);

/// How much time has passed, without pauses, since this was asked first.
pub(crate) fn passed() -> Duration {
    static COUNTER: OnceLock<()> = OnceLock::new();
    COUNTER.get_or_init(|| {
        std::thread::Builder::new().name("patience".to_owned()).spawn(count).expect("a thread");
    });
    Duration::from_millis(MILLIS.load(Ordering::Relaxed))
}

#[allow(clippy::disallowed_methods, reason = "a thread of its own that does nothing else")]
fn count() {
    let mut last = Instant::now();
    loop {
        std::thread::sleep(TICK);
        let now = Instant::now();
        let tick = now.duration_since(last).min(LONGEST_TICK);
        MILLIS.fetch_add(u64::try_from(tick.as_millis()).expect("is short"), Ordering::Relaxed);
        last = now;
    }
}

/// Awaits a future for at most `bound`.
pub(crate) async fn patient<F: Future>(bound: Duration, future: F) -> Option<F::Output> {
    let end = passed() + bound;
    let patience = async {
        while passed() < end {
            tokio::time::sleep(TICK).await;
        }
    };
    tokio::select! {
        biased;
        output = future => Some(output),
        () = patience => None,
    }
}
