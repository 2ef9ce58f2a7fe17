use redlock::redis_lock;

#[redis_lock(key = "stock-<id>")]
async fn deduct(id: u64) -> Result<u64, String> {
    Ok(id)
}

fn main() {
    drop(deduct(1));
}
