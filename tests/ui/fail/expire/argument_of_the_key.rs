//! Only the key names the argument, which is not unused because another option is wrong.
#![deny(unused_variables)]

use redlock::{LockError, redis_lock};

#[redis_lock(key = "nightly-<day>", expire = "10")]
async fn nightly(day: u32) -> Result<(), LockError> {
    Ok(())
}

fn main() {
    drop(nightly(1));
}
