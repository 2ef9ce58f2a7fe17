//! Keys: how they are rendered from arguments, and what makes them valid.

mod arguments;
mod display;
mod key_set;
mod lock_key;
mod printable;
mod render;
mod rendered;
mod slot;

pub use arguments::{lend, take};
pub use display::{display_key, display_keys, several};
pub(crate) use key_set::in_order;
#[cfg(feature = "cluster")]
pub(crate) use lock_key::mark_of_slot;
pub(crate) use lock_key::{FOUNDERS_SUFFIX, LockKey, MAILBOX, WithHelpers};
pub use printable::{KeyPart, Keys, part};
pub use render::Render;
pub(crate) use rendered::Rendered;
pub use rendered::{Key, literal_key};
