use redlock::redis_lock;

#[redis_lock(key = "stock")]
mod stock {
    pub struct Stock;
}

fn main() {
    drop(stock::Stock);
}
