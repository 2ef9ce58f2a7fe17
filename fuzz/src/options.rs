//! What the runtime's `backend` knows of options.

use std::time::Duration;

pub(crate) const MIN_EXPIRE: Duration = Duration::from_millis(10);

pub(crate) fn up_to_millis(duration: Duration) -> Duration {
    duration
}
