use redlock::redis_lock;

#[redis_lock(key = "stock")]
const STOCK: u64 = 1;

fn main() {
    drop(STOCK.to_string());
}
