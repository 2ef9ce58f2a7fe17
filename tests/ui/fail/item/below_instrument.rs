use async_trait::async_trait;
use redlock::{LockError, redis_lock};
use tracing::instrument;

#[async_trait]
trait Shop {
    async fn deduct(&self, pair: (u64, u64)) -> Result<u64, LockError>;
}

struct Store;

#[async_trait]
impl Shop for Store {
    #[instrument(skip(self))]
    #[redis_lock(key = "stock-<id>")]
    async fn deduct(&self, (id, _): (u64, u64)) -> Result<u64, LockError> {
        Ok(id)
    }
}

fn main() {
    drop(Store.deduct((1, 2)));
}
