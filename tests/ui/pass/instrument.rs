// Above `#[tracing::instrument]`, in every shape of function: `err` and `ret` make names of their
// own, which have to be found.
use std::future::Future;

use async_recursion::async_recursion;
use async_trait::async_trait;
use redlock::{LockError, redis_lock};
use tracing::instrument;

#[async_trait]
trait Shop {
    async fn pattern(&self, pair: (u8, u8)) -> Result<u8, LockError>;
    async fn sell(&mut self, id: u64, name: &str) -> Result<u64, LockError>;
    async fn close(self) -> Result<(), LockError>;
}

#[derive(Debug)]
struct Store {
    id: u64,
}

#[async_trait]
impl Shop for Store {
    #[redis_lock(key = "<a>-<b>")]
    #[instrument(err, ret)]
    async fn pattern(&self, (a, b): (u8, u8)) -> Result<u8, LockError> {
        Ok(a + b)
    }

    #[redis_lock(key = "<self.id>-<id>-<name>")]
    #[instrument(ret, skip(self), fields(id = id))]
    async fn sell(&mut self, id: u64, name: &str) -> Result<u64, LockError> {
        self.id += id + name.len() as u64;
        Ok(self.id)
    }

    #[redis_lock(key = "close")]
    #[instrument(err(Debug))]
    async fn close(self) -> Result<(), LockError> {
        Ok(())
    }
}

#[redis_lock(key = "<n>")]
#[instrument(err, ret)]
fn by_hand(n: u32) -> impl Future<Output = Result<u32, LockError>> + Send {
    async move { Ok(n) }
}

#[redis_lock(key = "<name>")]
#[instrument(err, ret)]
async fn native(mut name: String) -> Result<String, LockError> {
    name.push('!');
    Ok(name)
}

#[async_recursion]
#[redis_lock(key = "<n>")]
#[instrument(err, ret)]
async fn recursive(n: u32) -> Result<u32, LockError> {
    if n == 0 { Ok(0) } else { recursive(n - 1).await }
}

fn main() {
    let mut store = Store { id: 1 };
    drop(store.pattern((1, 2)));
    drop(store.sell(1, "pen"));
    drop(store.close());
    drop((by_hand(1), native(String::new()), recursive(1)));
}
