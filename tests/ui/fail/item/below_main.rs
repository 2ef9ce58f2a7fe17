use redlock::{LockError, redis_lock};

#[tokio::main]
#[redis_lock(key = "main")]
async fn main() -> Result<(), LockError> {
    Ok(())
}
