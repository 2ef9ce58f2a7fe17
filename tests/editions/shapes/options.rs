use std::sync::Arc;
use std::time::Duration;

use redlock::{LockError, Redlock};

use crate::support::{AppError, Locked, pause};

pub const WAIT: Duration = Duration::from_secs(1);

#[allow(clippy::needless_pass_by_value)]
pub fn on_error<T: Default>(error: LockError) -> T {
    assert!(!error.to_string().is_empty());
    T::default()
}

#[redis_lock(key = "all-<id>", expire = "1m30s", wait = "1500ms", max_renew = 0, on_error = panic,
    release = "await", reentrant = true, crate = ::redlock,)]
pub async fn all(id: u64) -> u64 {
    id
}

#[redis_lock(key = "skips", on_busy = "skip")]
pub async fn skips() -> Locked<()> {
    Ok(())
}

#[redis_lock(key = "skips", on_busy = "skip")]
pub async fn skips_to_none(id: &u64) -> Locked<Option<&u64>> {
    Ok(Some(id))
}

#[redis_lock(key = "skips", on_busy = "skip", on_error = panic)]
pub async fn skips_nothing() {}

#[redis_lock(key = "skips", on_busy = "skip", on_error = |_| None)]
pub async fn skips_with_a_handler<T>(value: T) -> Option<T> {
    Some(value)
}

#[redis_lock(key = "errs", on_busy = "error")]
pub async fn errs() -> Locked<u32> {
    Ok(1)
}

#[redis_lock(key = "stays", wait = "0s", on_busy = "skip", min_hold = "5s")]
pub async fn stays_taken() -> Locked<()> {
    Ok(())
}

#[redis_lock(key = "stays", min_hold = Duration::from_secs(seconds))]
pub async fn stays_taken_for(seconds: u64) -> Locked<()> {
    Ok(())
}

#[redis_lock(key = "brackets", on_error = (|_| 0))]
pub async fn on_error_in_brackets() -> u32 {
    1
}

// A macro may hide a `return`; these do not.
#[redis_lock(key = { assert!(n > 0); &text }, wait = { assert!(n > 0); Duration::from_secs(n) },
    client = { assert!(n > 0); redlock })]
pub async fn macros(redlock: &Redlock, n: u64, text: String) -> Locked<usize> {
    pause().await;
    Ok(text.len())
}

#[redis_lock(key = { debug_assert!(ids.len() > 0); ids.next().unwrap_or_default() })]
pub async fn macros_beside_a_change(mut ids: std::vec::IntoIter<u64>) -> Locked<usize> {
    pause().await;
    Ok(ids.by_ref().count())
}

#[redis_lock(key = { assert!(!text.is_empty()); text.into_boxed_str() })]
pub async fn macros_that_consume(text: String, n: u64) -> Locked<u64> {
    pause().await;
    Ok(n)
}

#[redis_lock(key = "once", wait = "0s")]
pub async fn try_once() -> Locked<()> {
    Ok(())
}

#[redis_lock(key = "forever", wait = "forever", max_renew = 4_294_967_295u32)]
pub async fn forever() -> Locked<()> {
    Ok(())
}

#[redis_lock(key = "values", expire = Duration::from_secs(20), wait = WAIT)]
pub async fn constant_durations() -> Locked<()> {
    Ok(())
}

#[redis_lock(key = "values", expire = lease * 2, wait = redlock::Wait::Forever)]
pub async fn durations_from_arguments(lease: Duration, text: String) -> Locked<usize> {
    pause().await;
    let _ = lease;
    Ok(text.len())
}

#[redis_lock(key = "background", release = "background", reentrant = false)]
pub async fn background() -> Locked<()> {
    Ok(())
}

#[redis_lock(key = "closure", on_error = |error| Err(error.to_string()))]
pub async fn closure_on_error() -> Result<u32, String> {
    Ok(1)
}

#[redis_lock(key = "closure", on_error = |_| n)]
pub async fn capturing_closure(n: u32) -> u32 {
    pause().await;
    n + 1
}

#[redis_lock(key = "path", on_error = on_error)]
pub async fn path_on_error() -> u32 {
    1
}

#[redis_lock(key = "path", on_error = self::on_error::<Option<u32>>)]
pub async fn generic_path_on_error() -> Option<u32> {
    None
}

#[redis_lock(key = "variant", on_error = Some)]
pub async fn constructor_on_error() -> Option<LockError> {
    None
}

#[redis_lock(key = "client-<id>", client = locks)]
pub async fn client_argument(locks: &Redlock, id: u64) -> Locked<u64> {
    pause().await;
    Ok(id)
}

#[redis_lock(key = "client-<id>", client = &locks)]
pub async fn owned_client_argument(locks: Redlock, id: u64) -> Locked<u64> {
    pause().await;
    drop(locks);
    Ok(id)
}

#[redis_lock(key = "client", client = &locks)]
pub async fn shared_client_argument(locks: Arc<Redlock>) -> Locked<()> {
    pause().await;
    drop(locks);
    Ok(())
}

pub struct Service {
    pub locks: Redlock,
    pub shared: Arc<Redlock>,
    pub id: u64,
}

impl Service {
    pub fn locks(&self) -> &Redlock {
        &self.locks
    }

    #[redis_lock(key = "service-<self.id>", client = &self.locks)]
    pub async fn client_field(&self) -> Locked<u64> {
        pause().await;
        Ok(self.id)
    }

    #[redis_lock(key = "service-<self.id>", client = self.locks())]
    pub async fn client_method(&mut self) -> Locked<u64> {
        self.id += 1;
        pause().await;
        Ok(self.id)
    }

    #[redis_lock(key = "service-<self.id>", client = &self.shared, expire = WAIT)]
    pub async fn client_in_arc(self) -> Locked<u64> {
        pause().await;
        Ok(self.id)
    }
}

pub static CLIENTS: std::sync::Mutex<Vec<Redlock>> = std::sync::Mutex::new(Vec::new());

#[redis_lock(key = "static", client = &CLIENTS.lock().unwrap()[0])]
pub async fn client_behind_a_static() -> Locked<()> {
    pause().await;
    Ok(())
}

pub mod reexport {
    pub use redlock as inner;
}

#[redis_lock(key = "crate", crate = crate::locked::options::reexport::inner)]
pub async fn reexported_crate(n: u32) -> Result<u32, AppError> {
    Ok(n)
}
