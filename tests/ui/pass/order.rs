// Above the attribute that makes the function synchronous.
use redlock::{LockError, redis_lock};

#[redis_lock(key = "main")]
#[tokio::main]
async fn never_run() -> Result<(), LockError> {
    Ok(())
}

fn main() {
    let _ = never_run as fn() -> Result<(), LockError>;
}
