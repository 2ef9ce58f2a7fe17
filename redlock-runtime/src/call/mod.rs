//! What `#[redis_lock]` expands to: the parts of the attribute that need no macro.

mod after_completion;
mod locked;
mod on_busy;
mod on_error;
mod opaque;
mod pending;
mod spec;
mod stage;

pub use locked::{Handed, Kept, Locked, Slot};
pub use on_busy::{Skip, skip_busy, skipped};
pub use on_error::{FromLockError, panic_on};
pub use pending::{LockLocal, Pending, convert, handle};
pub use spec::{Client, Spec, client, global, wait};
