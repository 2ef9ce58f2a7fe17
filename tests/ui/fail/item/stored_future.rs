use std::future::Future;
use std::pin::Pin;

use redlock::{LockError, redis_lock};

#[redis_lock(key = "stock-<id>")]
fn deduct(id: u64) -> Pin<Box<dyn Future<Output = Result<u64, LockError>>>> {
    let future = Box::pin(async move { Ok(id) });
    future
}

fn main() {
    drop(deduct(1));
}
