use redlock::redis_lock;

#[redis_lock(key = "stock-<id>")]
const fn deduct(id: u64) -> u64 {
    id
}

fn main() {
    deduct(1);
}
