// As in a crate whose `Cargo.toml` gives the library another name.
use redlock::{LockError, redis_lock};

#[redis_lock(key = "stock-<id>", crate = ::locks)]
async fn deduct(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {
    drop(deduct(1));
}
