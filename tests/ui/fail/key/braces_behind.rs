use redlock::{LockError, redis_lock};

#[redis_lock(key = "stock-<id>-{name}")]
async fn deduct(id: u64, name: &str) -> Result<(), LockError> {
    println!("{id} {name}");
    Ok(())
}

fn main() {
    drop(deduct(1, "pen"));
}
