//! Without the feature `metrics`: every function is empty.

use std::time::Duration;

use crate::error::LockError;
use crate::state::LostReason;

pub(crate) fn describe() {}
pub(crate) fn attempt(_: &'static str) {}
pub(crate) fn acquired(_: &'static str, _: Duration) {}
pub(crate) fn not_acquired(_: &'static str, _: &LockError, _: bool) {}
pub(crate) fn skipped(_: &'static str) {}
pub(crate) fn gave_up(_: &'static str) {}
pub(crate) fn question(_: &'static str) {}
pub(crate) fn held(_: &'static str) {}
pub(crate) fn ended(_: &'static str, _: Duration) {}
pub(crate) fn lost(_: &'static str, _: LostReason) {}
pub(crate) fn renewal(_: &'static str, _: bool) {}
pub(crate) fn renewal_lag(_: Duration) {}
pub(crate) fn unprotected(_: &'static str) {}
pub(crate) fn node_up(_: &str, _: bool) {}
pub(crate) fn node_doubted(_: &str, _: &'static str) {}
