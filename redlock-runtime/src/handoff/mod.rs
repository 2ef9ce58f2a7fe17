//! The handle whose drop frees a lock, or hands it to the next caller of this process.

mod grant;
mod joint;
mod local_handoff;
mod lost;
mod ownership;

pub(crate) use grant::{NotHeld, grant};
pub(crate) use joint::{NotJoined, hold_together, join};
pub(crate) use local_handoff::{Delivery, give_to_waiter};
pub(crate) use ownership::Ownership;
