use redlock::{LockError, redis_lock};

#[redis_lock(keys = vec!["acct-<from>".to_owned(), format!("acct-{from}-{to}")])]
async fn deduct(from: u64, to: u64) -> Result<u64, LockError> {
    Ok(from + to)
}

fn main() {
    drop(deduct(1, 2));
}
