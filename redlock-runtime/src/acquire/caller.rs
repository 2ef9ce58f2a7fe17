//! A caller that waits for an answer from the executor.

use std::sync::{Arc, OnceLock};

use crate::engine::Engine;
use crate::thread_exit::Unsent;

/// A caller that waits for an answer from the executor. If it goes away before the answer, the end
/// of its thread waits until the attempt is completed.
pub(super) struct Caller {
    is_answered: bool,
    /// Shared with the task that makes the attempt, until it is completed.
    gone: Arc<OnceLock<Unsent>>,
}

impl Caller {
    pub(super) fn new(engine: &Engine) -> Self {
        Self { is_answered: engine.is_embedded(), gone: Arc::default() }
    }

    pub(super) fn gone(&self) -> Arc<OnceLock<Unsent>> {
        Arc::clone(&self.gone)
    }

    pub(super) fn hears(mut self) {
        self.is_answered = true;
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        if !self.is_answered {
            self.gone.get_or_init(Unsent::here);
        }
    }
}
