//! Labels that no template gives.

/// The template of locks that are taken without one, by `Redlock::lock`.
pub(crate) const PROGRAMMATIC: &str = "(programmatic)";
