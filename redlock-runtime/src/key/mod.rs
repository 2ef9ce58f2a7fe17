//! Keys: how they are rendered from arguments, and what makes them valid.

mod key_set;
mod lock_key;
mod render;
mod slot;

pub(crate) use key_set::in_order;
pub(crate) use lock_key::{FOUNDERS_SUFFIX, LockKey, MAILBOX, WithHelpers};
pub(crate) use render::Rendered;
pub use render::{
    Key, KeyPart, Keys, Render, display_key, display_keys, lend, literal_key, part, several, take,
};
