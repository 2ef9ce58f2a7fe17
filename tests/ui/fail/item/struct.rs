use redlock::redis_lock;

#[redis_lock(key = "stock")]
pub struct Stock {
    pub id: u64,
}

fn main() {
    drop(Stock { id: 1 });
}
