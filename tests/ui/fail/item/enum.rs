use redlock::redis_lock;

#[redis_lock(key = "stock")]
pub enum Stock {
    Empty,
}

fn main() {
    drop(Stock::Empty);
}
