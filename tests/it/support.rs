//! The suite's own tools: real servers, faults on the wire, other processes, captured events.

pub use ::fault_kit::*;
