//! The ability of a backend to say which of its nodes answer.

use std::pin::Pin;
use std::time::Duration;

use crate::health::Health;

/// The future answer to a check.
pub(crate) type HealthAnswer<'a> = Pin<Box<dyn Future<Output = Health> + Send + 'a>>;

/// A backend that can say which of its nodes answer. A check takes no lock, and ends within
/// `within`.
pub(crate) trait HealthCheck: Send + Sync {
    fn check_health(&self, within: Duration) -> HealthAnswer<'_>;
}
