use redlock::{LockError, redis_lock};

#[redis_lock(key = "stock-<id>", wait = text)]
async fn deduct(id: u64, text: String) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {
    drop(deduct(1, String::new()));
}
