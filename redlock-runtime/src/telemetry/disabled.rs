//! Without the feature `metrics`: every function is empty.

use std::time::Duration;

use super::label::LockLabels;
use crate::error::LockError;
use crate::state::LostReason;

pub(crate) fn describe() {}
pub(crate) fn call(_: LockLabels) {}
pub(crate) fn acquired(_: LockLabels, _: Duration) {}
pub(crate) fn not_acquired(_: LockLabels, _: &LockError, _: bool) {}
pub(crate) fn skipped(_: LockLabels) {}
pub(crate) fn gave_up(_: LockLabels) {}
pub(crate) fn acquire_sent(_: &'static str) {}
pub(crate) fn held(_: LockLabels) {}
pub(crate) fn ended(_: LockLabels, _: Duration) {}
pub(crate) fn lost(_: LockLabels, _: LostReason) {}
pub(crate) fn renewal(_: &'static str, _: bool) {}
pub(crate) fn renewal_lag(_: Duration) {}
pub(crate) fn unprotected(_: &'static str) {}
pub(crate) fn node_up(_: &str, _: bool) {}
pub(crate) fn node_doubted(_: &str, _: &'static str) {}
