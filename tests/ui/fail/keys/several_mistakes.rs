use redlock::{LockError, redis_lock};

#[redis_lock(keys = ["acct-<from>", 5, "acct-<too>", ["acct-<to>"]])]
async fn deduct(from: u64, to: u64) -> Result<u64, LockError> {
    Ok(from + to)
}

fn main() {
    drop(deduct(1, 2));
}
