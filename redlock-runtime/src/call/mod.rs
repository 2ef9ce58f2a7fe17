//! What `#[redis_lock]` expands to: the parts of the attribute that need no macro.

mod locked;
mod on_busy;
mod on_error;
mod opaque;
mod spec;
mod stage;

pub use locked::{Handed, Kept, LockLocal, Locked, Pending, Slot, convert, handle};
pub use on_busy::{Skip, skip_busy, skipped};
pub use on_error::{FromLockError, panic_on};
pub use spec::{Client, Spec, client, global, wait};
