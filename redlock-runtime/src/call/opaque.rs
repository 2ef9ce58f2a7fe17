//! A stage that proofs of auto traits do not look into.
//!
//! To prove that a future is `Send`, rustc follows every type in it, and counts how deep it is. A
//! stage contains the whole client, down to its sockets: without this boundary a locked call below
//! some twenty plain async functions would exceed the recursion limit of the caller's crate.

use std::panic::{RefUnwindSafe, UnwindSafe};

use super::stage::Stage;

/// The stage of a call, boxed in any case. The bounds are all that a caller can require of its
/// future.
pub(crate) type OpaqueStage = Box<dyn Opaque + Send + Sync + UnwindSafe + RefUnwindSafe>;

/// Gives back the opaque type, at the cost of one indirect call per poll.
pub(crate) trait Opaque {
    fn stage(&mut self) -> &mut Stage;
}

impl Opaque for Stage {
    #[inline]
    fn stage(&mut self) -> &mut Stage {
        self
    }
}

// A stage whose poll panicked is only dropped, and its drop releases what it holds.
impl UnwindSafe for Stage {}
impl RefUnwindSafe for Stage {}
