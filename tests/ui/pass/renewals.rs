// `max_renew` takes expressions: of arguments, fields and constants.
use std::time::Duration;

use redlock::{LockError, LostReason, Redlock, redis_lock};

const NEVER: u32 = 0;

struct Job {
    locks: Redlock,
    renewals: u32,
}

impl Job {
    #[redis_lock(key = "job-<id>", expire = "6s", max_renew = self.renewals * 2, client = &self.locks)]
    async fn run(&self, id: u64) -> Result<u64, LockError> {
        std::future::pending::<()>().await;
        Ok(id)
    }
}

#[redis_lock(key = "constant", expire = "6s", max_renew = NEVER, client = locks)]
async fn constant(locks: &Redlock) -> Result<(), LockError> {
    std::future::pending().await
}

fn renewals(outcome: Result<impl Sized, LockError>) -> u64 {
    match outcome {
        Err(LockError::Lost { reason: LostReason::RenewalLimit, renewals, .. }) => renewals.into(),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("the body ends"),
    }
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), LockError> {
    let locks = Redlock::builder().memory().build().await?;
    assert_eq!(renewals(constant(&locks).await), 0);
    let job = Job { locks, renewals: 1 };
    let begun = tokio::time::Instant::now();
    assert_eq!(renewals(job.run(7).await), 2);
    // Two renewals after 4 s each, and 0.94 of a lease.
    assert_eq!(begun.elapsed().as_secs(), 13, "{:?}", begun.elapsed());
    assert!(begun.elapsed() < Duration::from_secs(14));
    Ok(())
}
