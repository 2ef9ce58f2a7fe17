use redlock::redis_lock;

#[redis_lock(key = "stock-<id>", on_error = |text: String| Err(text.into()))]
async fn deduct(id: u64) -> Result<u64, Box<dyn std::error::Error>> {
    Ok(id)
}

#[redis_lock(key = "stock-<id>", release = "await", on_error = |text: String| Err(text))]
async fn awaited(id: u64) -> Result<u64, String> {
    Ok(id)
}

fn main() {
    drop(deduct(1));
    drop(awaited(1));
}
