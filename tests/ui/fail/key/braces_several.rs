use redlock::{LockError, redis_lock};

#[redis_lock(key = "{id}:{name}")]
async fn deduct(id: u64, name: &str) -> Result<u64, LockError> {
    Ok(id + name.len() as u64)
}

fn main() {
    drop(deduct(1, "pen"));
}
