// A library that re-exports the attribute: its users do not depend on redlock.
#![deny(warnings)]

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

// Here the path is code of this crate, to which its lints apply.
macro_rules! locked {
    ($name:ident, $output:ty, $value:expr, $($path:tt)+) => {
        #[redis_lock(key = "stock-<id>", crate = $($path)+)]
        async fn $name(id: u64) -> Result<$output, LockError> {
            println!("{id}");
            Ok($value)
        }
    };
    ($name:ident) => {
        locked!($name, u64, 1, crate::library::locks);
    };
}

locked!(in_a_macro);
locked!(named_outside, u64, 1, library::locks);
locked!(not_send, std::rc::Rc<u64>, std::rc::Rc::new(1), library::locks);

fn main() {
    drop((in_a_macro(1), named_outside(1), not_send(1)));
    drop(deduct(1));
    drop(inner::deduct());
}
