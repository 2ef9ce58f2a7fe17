//! Keys: how they are rendered from arguments, and what makes them valid.

mod lock_key;
mod render;
mod slot;

pub(crate) use lock_key::{FOUNDERS_SUFFIX, LockKey, MAILBOX};
pub use render::{Key, KeyPart, Render, display_key, lend, literal_key, part, take};
