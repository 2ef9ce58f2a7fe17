//! `crate`: a crate that re-exports this one, under a name of its own.

use redlock::LockError;

use crate::clients::{client, key_here};

/// As a framework would offer it to its users.
mod framework {
    pub mod parts {
        pub use redlock as locks;
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

/// `::redlock` is somebody else here: nothing of the expansion may name it.
mod shadowed {
    use super::framework::parts::locks as renamed;

    #[renamed::redis_lock(key = "shadowed", client = locks, crate = renamed)]
    pub async fn call(locks: &renamed::Redlock) -> Result<String, renamed::LockError> {
        Ok(crate::clients::key_here().await)
    }
}

#[tokio::test]
async fn a_re_exported_attribute_works_as_the_plain_one() {
    let redlock = client().await;
    assert_eq!(by_relative_path(&redlock, 7).await.unwrap(), "re-exported-7");
    assert_eq!(by_absolute_path(&redlock).await, "re-exported");
    assert_eq!(shadowed::call(&redlock).await.unwrap(), "shadowed");
}
