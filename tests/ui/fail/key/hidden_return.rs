use redlock::{LockError, redis_lock};

macro_rules! ensure {
    ($condition:expr) => {
        if !$condition {
            return Ok(0);
        }
    };
}

#[redis_lock(key = { ensure!(id > 0); id })]
async fn deduct(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {
    drop(deduct(1));
}
