use redlock::{LockError, redis_lock};

trait Stock {
    #[redis_lock(key = "stock-<id>")]
    async fn deduct(&self, id: u64) -> Result<u64, LockError>;
}

impl Stock for u8 {
    async fn deduct(&self, id: u64) -> Result<u64, LockError> {
        Ok(id)
    }
}

fn main() {
    drop(1_u8.deduct(1));
}
