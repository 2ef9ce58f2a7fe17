//! Keys: how one is rendered from arguments, and what it must be like to name a lock.

mod lock_key;
mod render;
mod slot;

pub(crate) use lock_key::{LockKey, MAILBOX, ROLL_SUFFIX};
pub use render::{Key, KeyPart, Render, display_key, lend, literal_key, part, take};
