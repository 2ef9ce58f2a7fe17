use redlock::{LockError, redis_lock};

macro_rules! locked {
    ($name:ident, $extra:ident) => {
        #[redis_lock(key = "stock", max_renew = times)]
        async fn $name($extra: u32, times: u32) -> Result<u32, LockError> {
            Ok(times)
        }
    };
}

locked!(deduct, times);

fn main() {
    drop(deduct(1, 2));
}
