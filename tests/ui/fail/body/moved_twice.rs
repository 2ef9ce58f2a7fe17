use redlock::{LockError, redis_lock};

#[redis_lock(key = "stock")]
async fn deduct(text: String) -> Result<u64, LockError> {
    drop(text);
    drop(text);
    Ok(1)
}

fn main() {
    drop(deduct(String::new()));
}
