use redlock::{LockError, redis_lock};

fn key_of<T: ToString>(id: T) -> String {
    id.to_string()
}

#[redis_lock(key = key_of::<u64>(id) expire = "10s")]
async fn deduct(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {
    drop(deduct(1));
}
