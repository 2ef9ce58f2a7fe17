//! Labels of metrics that are not key templates.

use crate::kind::Kind;

/// The label of locks without a template, which `Redlock::lock` acquires.
pub(crate) const PROGRAMMATIC: &str = "(programmatic)";

/// The labels of a lock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LockLabels {
    /// The template of its key.
    pub(crate) template: &'static str,
    pub(crate) kind: Kind,
}
