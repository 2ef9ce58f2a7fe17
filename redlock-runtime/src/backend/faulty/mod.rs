//! A memory backend that plays faults by a script: for the tests of this library, and for those of
//! its users.

mod fate;
mod health_check;
mod hints;
mod node;
mod planned_fault;
mod script;
mod store;

#[cfg(test)]
pub(crate) use fate::{Fate, meet};
#[cfg(test)]
pub(crate) use node::FaultyNode;
pub use planned_fault::PlannedFault;
pub use script::Command;
pub use store::FaultyStore;
