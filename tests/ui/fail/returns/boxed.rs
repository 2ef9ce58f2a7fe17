use redlock::redis_lock;

#[redis_lock(key = "stock-<id>")]
fn deduct(id: u64) -> std::pin::Pin<Box<dyn Future<Output = u64>>> {
    Box::pin(async move { id })
}

fn main() {
    drop(deduct(1));
}
