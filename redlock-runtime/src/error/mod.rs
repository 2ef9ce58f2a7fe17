//! Every way in which a lock can fail, with messages that say what to do next.

mod already_held;
mod blame;
mod invalid_key;
mod lock_error;
mod message;
mod node_error;
mod show;

pub use already_held::AlreadyHeldReason;
pub use invalid_key::InvalidKeyReason;
pub use lock_error::LockError;
#[cfg(feature = "cluster")]
pub(crate) use node_error::WITHOUT_MASTER;
pub use node_error::{NodeError, NodeErrorKind};
