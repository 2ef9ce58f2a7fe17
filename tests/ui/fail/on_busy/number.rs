use redlock::{LockError, redis_lock};

#[redis_lock(key = "stock-<id>", on_busy = "skip", on_error = |_: LockError| 0)]
async fn deduct(id: u64) -> u64 {
    id
}

fn main() {
    drop(deduct(1));
}
