use redlock::{LockError, redis_lock};

#[redis_lock(keys = ["acct-<from>", "acct-<to>"], mode = "read")]
async fn deduct(from: u64, to: u64) -> Result<u64, LockError> {
    Ok(from + to)
}

fn main() {
    drop(deduct(1, 2));
}
