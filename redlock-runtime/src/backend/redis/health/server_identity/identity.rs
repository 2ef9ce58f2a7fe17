//! What INFO says about a server.

use std::sync::Arc;

use super::super::info::field;

/// What INFO says about a server. The uptime is left out: a server counts it by its wall clock,
/// which may have been off when it booted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) run_id: Arc<str>,
    /// Names the history of its data; a promotion begins a new one.
    pub(super) history: String,
    /// It was a replica once.
    pub(super) was_promoted: bool,
}

impl Identity {
    /// `None`: the server does not identify itself.
    pub(super) fn parse(info: &str) -> Option<Self> {
        let run_id = Arc::from(field(info, "run_id").filter(|run_id| !run_id.is_empty())?);
        let history = field(info, "master_replid").unwrap_or_default().to_owned();
        let before = field(info, "master_replid2").unwrap_or_default();
        let was_promoted = before.bytes().any(|byte| byte != b'0');
        Some(Self { run_id, history, was_promoted })
    }

    /// Names the process, and after a promotion also the history that began with it: what clients
    /// saw before is no evidence then.
    pub(super) fn name(&self) -> Arc<str> {
        if !self.was_promoted {
            return Arc::clone(&self.run_id);
        }
        format!("{}/{}", self.run_id, self.history).into()
    }
}
