// A library that re-exports the attribute: its users do not depend on redlock.
mod library {
    pub mod locks {
        pub use redlock::*;
    }
}

use library::locks::{LockError, redis_lock};

#[redis_lock(key = "stock-<id>", crate = library::locks)]
async fn deduct(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

mod inner {
    #[super::redis_lock(key = "stock", crate = crate::library::locks)]
    pub async fn deduct() -> Result<(), super::LockError> {
        Ok(())
    }
}

fn main() {
    drop(deduct(1));
    drop(inner::deduct());
}
