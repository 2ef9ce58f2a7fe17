use redlock::redis_lock;

struct StockError;

#[redis_lock(key = "stock-<id>")]
async fn deduct(id: u64) -> Result<u64, StockError> {
    Ok(id)
}

fn main() {
    drop(deduct(1));
}
