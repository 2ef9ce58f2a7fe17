use redlock::{LockError, redis_lock};

struct Stock {
    id: u64,
}

impl Stock {
    #[redis_lock(key = "stock-<id>")]
    async fn deduct(&self) -> Result<u64, LockError> {
        Ok(self.id)
    }
}

fn main() {
    drop(Stock { id: 1 }.deduct());
}
