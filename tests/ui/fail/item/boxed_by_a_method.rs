use std::future::Future;
use std::pin::Pin;

use redlock::{LockError, redis_lock};

type BoxFuture<T> = Pin<Box<dyn Future<Output = T>>>;

trait Boxed: Future + Sized + 'static {
    fn boxed(self) -> BoxFuture<Self::Output> {
        Box::pin(self)
    }
}

impl<F: Future + 'static> Boxed for F {}

#[redis_lock(key = "stock-<id>")]
fn deduct(id: u64) -> BoxFuture<Result<u64, LockError>> {
    async move { Ok(id) }.boxed()
}

fn main() {
    drop(deduct(1));
}
