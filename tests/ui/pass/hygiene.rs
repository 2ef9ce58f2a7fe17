// Everything that the expansion names is shadowed here.
#![no_implicit_prelude]

use ::redlock::redis_lock;

mod core {}
mod std {}
mod redlock {}
struct Option;

#[redis_lock(key = "stock-<id>-<name>", expire = "10s", wait = "5s", max_renew = 5)]
async fn deduct(id: u64, name: &str) -> ::std::result::Result<u64, ::redlock::LockError> {
    let _ = (Option, name);
    ::std::result::Result::Ok(id)
}

fn main() {
    ::std::mem::drop(deduct(1, "a"));
}
