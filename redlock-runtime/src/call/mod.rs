//! What `#[redis_lock]` expands to: the parts of the attribute that need no macro.
//!
//! The body of `async fn deduct(id: u64, n: u32) -> Result<(), Failed>` with the key `"stock-<id>"`
//! becomes, in short:
//!
//! ```text
//! let __key = Render::new().text("stock-").value("id", format_args!("{}", id)).finish();
//! let __locked = {
//!     use LockLocal as _;
//!     convert::<Result<(), Failed>, _>(async move { /* the body */ })
//!         .__redlock_lock(const { Spec::new("stock-<id>") }, __key, global())
//! };
//! return __locked.await;
//! ```

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
