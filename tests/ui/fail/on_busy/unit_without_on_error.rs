use redlock::redis_lock;

#[redis_lock(key = "stock-<id>", on_busy = "skip")]
async fn deduct(id: u64) {
    drop(id);
}

fn main() {
    drop(deduct(1));
}
