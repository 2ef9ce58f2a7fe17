//! Metrics: what is counted and measured, behind the feature `metrics`.
//!
//! Both files have the same functions, so that no caller depends on the feature. Labels are key
//! templates and kinds, never keys: their number is bounded by the source code.

mod counted_call;
mod label;
mod node_gauge;
pub(crate) use counted_call::CountedCall;
pub(crate) use label::{LockLabels, PROGRAMMATIC};
pub(crate) use node_gauge::NodeGauge;

#[cfg(feature = "metrics")]
mod announced;

#[cfg(feature = "metrics")]
mod enabled;
#[cfg(feature = "metrics")]
pub(crate) use enabled::*;

#[cfg(not(feature = "metrics"))]
mod disabled;
#[cfg(not(feature = "metrics"))]
pub(crate) use disabled::*;
