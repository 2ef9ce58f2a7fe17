// A key may use an argument up if the body does not need it. Fields and methods of its name are no
// such need.
use redlock::{LockError, redis_lock};

struct Path<T>(T);

impl<T> Path<T> {
    fn into_inner(self) -> T {
        self.0
    }
}

struct Order {
    id: u64,
}

impl Order {
    fn id(&self) -> u64 {
        self.id
    }
}

#[redis_lock(key = "order-<id.into_inner()>")]
async fn beside_a_field(id: Path<String>, order: Order) -> Result<u64, LockError> {
    Ok(order.id)
}

#[redis_lock(key = format!("order-{}", id.into_inner()))]
async fn beside_a_method(id: Path<String>, order: Order) -> Result<u64, LockError> {
    Ok(order.id())
}

#[redis_lock(key = id.into_inner())]
async fn beside_a_literal(id: Path<String>) -> Result<Order, LockError> {
    Ok(Order { id: 3 })
}

#[redis_lock(key = "order-<id.into_inner()>")]
async fn beside_a_pattern(id: Path<String>, order: Order) -> Result<u64, LockError> {
    let Order { id: number } = order;
    Ok(number)
}

fn main() {
    let path = || Path(String::new());
    drop(beside_a_field(path(), Order { id: 1 }));
    drop(beside_a_method(path(), Order { id: 1 }));
    drop(beside_a_literal(path()));
    drop(beside_a_pattern(path(), Order { id: 1 }));
}
