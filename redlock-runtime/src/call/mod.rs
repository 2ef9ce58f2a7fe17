//! What `#[redis_lock]` expands to: the parts of the attribute that need no macro.

mod local_output;
mod locked;
mod no_return;
mod on_busy;
mod on_error;
mod opaque;
mod output_slot;
mod pending;
mod spec;
mod stage;

pub use local_output::LockLocal;
pub use locked::Locked;
pub use no_return::{NoReturn, no_return};
pub use on_busy::{Skip, skip_busy, skipped};
pub use on_error::{FromLockError, panic_on};
pub use output_slot::{Handed, Kept, Slot};
pub use pending::{Pending, convert, handle};
pub use spec::{Client, Spec, client, global, wait};
