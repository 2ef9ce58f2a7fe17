// Names that mean something else here than in the prelude, in std or in the attribute's expansion.

use crate::support::{AppError, pause};

pub struct Option;
pub struct Some;
pub struct None;
pub struct String;
pub struct Box;
pub struct Send;
pub struct Future;
pub struct Duration;
pub struct Wait;
pub struct Spec;
pub struct Key;
pub struct LockLocal;
pub struct LockError;
pub mod core {}
pub mod std {}
pub mod alloc {}
pub mod redlock {}
pub mod __private {}

#[allow(unused_macros)]
macro_rules! format_args {
    ($($any:tt)*) => {
        compile_error!("not this one")
    };
}

#[allow(unused_macros)]
macro_rules! concat {
    ($($any:tt)*) => {
        compile_error!("not this one")
    };
}

#[redis_lock(key = "shadowed-<id>-<id:?>", expire = "10s", wait = "5s", max_renew = 3)]
pub async fn shadowed_types(id: u64) -> Result<u64, AppError> {
    pause().await;
    Ok(id)
}

#[redis_lock(key = "shadowed-<key>-<redlock>-<locked>")]
pub async fn shadowed_arguments(
    key: u64,
    redlock: u64,
    locked: u64,
    spec: u64,
    client: u64,
) -> Result<u64, AppError> {
    Ok(key + redlock + locked + spec + client)
}

#[redis_lock(key = "internals-<__key>-<__locked>")]
pub async fn internal_names(
    __key: u64,
    __locked: u64,
    __spec: u64,
    __client: u64,
    __returned: u64,
) -> Result<u64, AppError> {
    let sum = __key + __locked + __spec + __client + __returned;
    pause().await;
    Ok(sum)
}

#[redis_lock(key = "internals-<id>", wait = crate::locked::options::WAIT)]
pub async fn internal_names_in_body(id: u64) -> Result<u64, AppError> {
    let __key = id;
    let __spec = __key + 1;
    let __locked = __spec;
    Ok(__locked)
}

#[redis_lock(key = "shadow-<id>")]
pub async fn shadowing(id: u64) -> Result<usize, AppError> {
    let id = "text";
    let id = id.len();
    Ok(id)
}

#[allow(non_camel_case_types)]
pub struct convert;

#[redis_lock(key = "unit-<id>")]
#[allow(clippy::similar_names)]
pub async fn shadowed_functions(id: u64) -> Result<u64, AppError> {
    fn handle() -> u64 {
        1
    }
    fn global() -> u64 {
        2
    }
    struct Render;
    let _ = (convert, Render);
    Ok(id + handle() + global())
}

pub trait Lock: Sized {
    fn lock(self, n: u64) -> u64;
}

impl Lock for u64 {
    fn lock(self, n: u64) -> u64 {
        self + n
    }
}

#[redis_lock(key = "method-<id>")]
pub async fn a_lock_method_of_ones_own(id: u64) -> Result<u64, AppError> {
    pause().await;
    Ok(id.lock(1))
}

// The function from one macro, the attribute in another: names meet only through the key.
macro_rules! function {
    ($name:ident, $argument:ident) => {
        locked! {
            pub async fn $name($argument: u64, other: u64) -> Result<u64, AppError> {
                Ok($argument + other)
            }
        }
    };
}

macro_rules! locked {
    ($function:item) => {
        #[redis_lock(key = "macro-<id>-<other>")]
        $function
    };
}

function!(through_two_macros, id);

macro_rules! whole {
    ($name:ident) => {
        #[redis_lock(key = "macro-<id>")]
        pub async fn $name(id: u64) -> Result<u64, AppError> {
            let id = id + 1;
            Ok(id)
        }
    };
}

whole!(whole_in_a_macro);

macro_rules! options {
    ($name:ident, $key:literal, $expire:expr, $wait:literal, $renew:expr, $type:ty, $body:block)
    => {
        #[redis_lock(key = $key, expire = $expire, wait = $wait, max_renew = $renew)]
        pub async fn $name(id: u64) -> $type $body
    };
}

options!(options_from_a_macro, "macro-<id>", "10s", "5s", 3, Result<u64, AppError>, { Ok(1) });

// One name in two spellings.
#[redis_lock(key = "raw-<r#id>-<order.r#id>", client = r#redlock, wait = r#limit)]
pub async fn raw_in_the_key(
    id: u64,
    order: crate::support::Order,
    redlock: &::redlock::Redlock,
    limit: ::std::time::Duration,
) -> Result<u64, AppError> {
    pause().await;
    Ok(r#id + order.id + r#redlock.held().len() as u64 + u64::from(limit.subsec_nanos()))
}

#[redis_lock(key = "raw-<id>-<b>", wait = limit)]
pub async fn raw_arguments(
    r#id: u64,
    mut r#b: ::std::string::String,
    r#limit: ::std::time::Duration,
) -> Result<usize, AppError> {
    pause().await;
    b.push('b');
    Ok(b.len() + usize::from(id > 1))
}

#[redis_lock(key = match r#match { 0 => "zero", _ => "more" })]
pub async fn raw_keyword(r#match: u64) -> Result<u64, AppError> {
    pause().await;
    Ok(r#match)
}

// In scope where the lock is taken, and for every type.
pub mod blanket {
    use std::rc::Rc;

    use super::redis_lock;
    use crate::support::{Locked, pause};

    pub trait LockExt: Sized {
        fn lock(self) -> u64;
        fn lock_until_released(self) -> u64;
    }

    impl<T> LockExt for T {
        fn lock(self) -> u64 {
            1
        }

        fn lock_until_released(self) -> u64 {
            2
        }
    }

    #[redis_lock(key = "blanket-<id>")]
    pub async fn sent(id: u64) -> Locked<u64> {
        pause().await;
        Ok(id.lock())
    }

    #[redis_lock(key = "blanket-<id>", release = "await")]
    pub async fn awaited(id: u64) -> Locked<u64> {
        pause().await;
        Ok(id.lock_until_released())
    }

    #[redis_lock(key = "blanket-<id>")]
    pub async fn not_sent(id: u64) -> Locked<Rc<u64>> {
        pause().await;
        Ok(Rc::new(id.lock()))
    }
}
