use redlock::{LockError, redis_lock};

#[redis_lock(key = "stock-<idd>", expire = "10", wait = "5sec", max_renew = -1, on_error = 5,
    release = "never", reentrant = 1, crate = 7, color = "red")]
async fn deduct(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {
    drop(deduct(1));
}
