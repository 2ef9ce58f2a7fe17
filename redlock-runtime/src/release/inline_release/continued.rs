//! A release that failed on the runtime of its caller, or has no answer there: the background
//! continues it.

use tokio::sync::oneshot;

use super::InlineRelease;
use crate::backend::Fault;
use crate::shield::tell;
use crate::state::Released;

impl InlineRelease {
    /// The try over the connection of the caller has failed.
    pub(super) fn failed(&mut self, fault: Fault) -> Fault {
        if !fault.ends_releases() {
            self.continue_in_background(Some(&fault), None);
        } else if let Some(task) = self.0.take() {
            task.give_up(fault.clone());
        }
        fault
    }

    /// The background sends the release from here on, beginning anew, and tells `reply` what its
    /// first attempt finds. `failed`: why the try here has failed; `None`: its answer is not known.
    pub(in crate::release) fn continue_in_background(
        &mut self,
        failed: Option<&Fault>,
        reply: Option<oneshot::Sender<Result<Released, Fault>>>,
    ) {
        let Some(mut task) = self.0.take() else { return };
        if task.engine.check_process().is_err() {
            // This is a copy in the child of a fork: the parent sends the release.
            return std::mem::forget(task);
        }
        match failed {
            Some(fault) => task.note_failure(fault),
            None => task.is_unknown = true,
        }
        task.reply = reply;
        let (executor, key) = (task.engine.executor(), task.claim.key.clone());
        if let Err(error) = executor.spawn_lasting(task.into_background_work()) {
            tell!(warn, key = key.name(), %error, "lock not released");
        }
    }
}
