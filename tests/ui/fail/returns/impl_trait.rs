use redlock::redis_lock;

#[redis_lock(key = "stock-<id>")]
async fn deduct(id: u64) -> impl std::fmt::Display {
    id
}

fn main() {
    drop(deduct(1));
}
