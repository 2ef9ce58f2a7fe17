//! The handle whose drop frees a lock, or hands it to the next caller of this process.

mod joint;
mod local_handoff;
mod ownership;

pub(crate) use joint::{hold_together, join};
pub(crate) use local_handoff::{Begin, Delivery, NotGranted, deliver, grant};
pub(crate) use ownership::Ownership;
