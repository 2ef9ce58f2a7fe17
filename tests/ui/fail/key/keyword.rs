use redlock::{LockError, redis_lock};

#[redis_lock(key = "stock-<type>")]
async fn deduct(r#type: u64) -> Result<u64, LockError> {
    Ok(r#type)
}

fn main() {
    drop(deduct(1));
}
