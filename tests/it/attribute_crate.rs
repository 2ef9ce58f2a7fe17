//! `crate`: a crate that re-exports this one, under a name of its own.

use std::sync::atomic::Ordering;

use redlock::LockError;

use crate::clients::{client, key_here};

/// As a framework would offer it to its users. It counts what comes by way of it.
mod framework {
    pub mod parts {
        pub mod locks {
            pub use redlock::*;

            pub mod __private {
                use std::sync::atomic::{AtomicU32, Ordering};

                pub use redlock::__private::*;

                pub static LITERAL_KEYS: AtomicU32 = AtomicU32::new(0);

                pub fn literal_key(text: &'static str) -> Key {
                    LITERAL_KEYS.fetch_add(1, Ordering::SeqCst);
                    redlock::__private::literal_key(text)
                }
            }
        }
    }
}

#[framework::parts::locks::redis_lock(
    key = "re-exported-<id>",
    expire = "10s",
    wait = "1s",
    client = locks,
    crate = framework::parts::locks
)]
async fn by_relative_path(
    locks: &framework::parts::locks::Redlock,
    id: u64,
) -> Result<String, LockError> {
    Ok(key_here().await)
}

#[framework::parts::locks::redis_lock(
    key = "re-exported",
    client = locks,
    on_error = |error| error.to_string(),
    crate = crate::attribute_crate::framework::parts::locks
)]
async fn by_absolute_path(locks: &framework::parts::locks::Redlock) -> String {
    key_here().await
}

/// Under a name that only this module knows.
mod renamed_here {
    use super::framework::parts::locks as renamed;

    #[renamed::redis_lock(key = "renamed-here", client = locks, crate = renamed)]
    pub async fn call(locks: &renamed::Redlock) -> Result<String, renamed::LockError> {
        Ok(crate::clients::key_here().await)
    }
}

#[tokio::test]
async fn a_re_exported_attribute_works_as_the_plain_one() {
    let redlock = client().await;
    assert_eq!(by_relative_path(&redlock, 7).await.unwrap(), "re-exported-7");
    assert_eq!(by_absolute_path(&redlock).await, "re-exported");
    assert_eq!(renamed_here::call(&redlock).await.unwrap(), "renamed-here");
    let by_the_path = framework::parts::locks::__private::LITERAL_KEYS.load(Ordering::SeqCst);
    assert_eq!(by_the_path, 2, "the expansion names nothing but the path");
}
