use redlock::redis_lock;

struct Stock;

#[redis_lock(key = "stock")]
impl Stock {
    async fn deduct(&self) {}
}

fn main() {
    drop(Stock.deduct());
}
