use redlock::{LockError, redis_lock};

#[redis_lock(key = { let id: u64 = "1".parse::<u64>().map_err(|_| todo!())?; id })]
async fn deduct(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {
    drop(deduct(1));
}
