use redlock::{LockError, redis_lock};

macro_rules! locked {
    ($name:ident, $extra:ident) => {
        #[redis_lock(key = "stock-<id>")]
        async fn $name($extra: u64, id: u64) -> Result<u64, LockError> {
            Ok(id)
        }
    };
}

locked!(deduct, id);

fn main() {
    drop(deduct(1, 2));
}
