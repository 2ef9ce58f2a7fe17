use redlock::{LockError, redis_lock};

#[redis_lock(key = "stock-<id:x>")]
async fn deduct(id: &str) -> Result<usize, LockError> {
    Ok(id.len())
}

fn main() {
    drop(deduct("1"));
}
