//! Keys: how they are rendered from arguments, and what makes them valid.

mod display;
mod key_set;
mod lock_key;
mod printable;
mod render;
mod slot;

pub use display::{display_key, display_keys, several};
pub(crate) use key_set::in_order;
#[cfg(feature = "cluster")]
pub(crate) use lock_key::mark_of_slot;
pub(crate) use lock_key::{FOUNDERS_SUFFIX, LockKey, MAILBOX, WithHelpers};
pub use printable::{KeyPart, Keys, part};
pub(crate) use render::Rendered;
pub use render::{Key, Render, lend, literal_key, take};
