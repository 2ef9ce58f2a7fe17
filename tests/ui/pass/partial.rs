// The body takes one part of an argument, and the handler another, from edition 2021 on.
use redlock::redis_lock;

struct Order {
    id: u64,
    items: Vec<String>,
}

#[redis_lock(key = "stock-<order.id>", on_error = |_| vec![order.id.to_string()])]
async fn deduct(order: Order) -> Vec<String> {
    order.items
}

fn main() {
    drop(deduct(Order { id: 1, items: Vec::new() }));
}
