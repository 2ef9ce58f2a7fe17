//! Without the feature `metrics`: every function is empty.

use std::time::Duration;

use super::label::LockLabels;
use crate::state::LostReason;

pub(crate) fn describe() {}
pub(super) fn call(_: LockLabels) {}
pub(super) fn call_ended(_: LockLabels, _: &'static str, _: Option<Duration>) {}
pub(crate) fn acquire_sent(_: &'static str) {}
pub(crate) fn held(_: LockLabels) {}
pub(crate) fn ended(_: LockLabels, _: Duration) {}
pub(crate) fn lost(_: LockLabels, _: LostReason) {}
pub(crate) fn renewal(_: &'static str, _: bool) {}
pub(crate) fn renewal_lag(_: Duration) {}
pub(crate) fn unprotected(_: &'static str) {}
pub(super) fn show_node(_: &str, _: f64) {}
pub(crate) fn node_doubted(_: &str, _: &'static str) {}
