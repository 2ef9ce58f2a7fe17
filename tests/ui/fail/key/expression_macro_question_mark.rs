use redlock::{LockError, redis_lock};

#[redis_lock(key = format!("{}", Err::<u64, LockError>(todo!())?))]
async fn deduct(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

struct Id {
    id: u64,
}

fn find(id: u64) -> Result<Option<Id>, LockError> {
    Ok(Some(Id { id }))
}

#[redis_lock(key = matches!(find(id)?, Some(found) if found.id > 1))]
async fn guarded(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[redis_lock(keys = vec![std::future::ready(id).await; 2])]
async fn repeated(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[redis_lock(key = Id { ..find(id)?.unwrap() }.id)]
async fn updated(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {
    drop((deduct(1), guarded(1), repeated(1), updated(1)));
}
