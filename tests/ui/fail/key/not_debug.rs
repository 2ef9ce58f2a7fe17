use redlock::{LockError, redis_lock};

struct Order {
    id: u64,
}

#[redis_lock(key = "stock-<order:?>")]
async fn deduct(order: &Order) -> Result<u64, LockError> {
    Ok(order.id)
}

fn main() {
    drop(deduct(&Order { id: 1 }));
}
