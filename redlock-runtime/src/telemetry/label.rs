//! Labels of metrics that are not key templates.

/// The label of locks without a template, which `Redlock::lock` acquires.
pub(crate) const PROGRAMMATIC: &str = "(programmatic)";
