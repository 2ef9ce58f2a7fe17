//! The labels of metrics.

use crate::kind::Kind;

/// The label of locks without a template, which `Redlock::lock` acquires.
pub(crate) const PROGRAMMATIC: &str = "(programmatic)";

/// The labels of a lock.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(not(feature = "metrics"), expect(dead_code, reason = "read by metrics only"))]
pub(crate) struct LockLabels {
    /// The template of its key.
    pub(crate) template: &'static str,
    pub(crate) kind: Kind,
}
