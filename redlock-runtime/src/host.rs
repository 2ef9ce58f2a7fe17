//! Where the tasks of an engine run.

use tokio::runtime::{self, Handle};

use crate::error::LockError;
use crate::keeper;

/// The runtime that a client's background work belongs to.
#[derive(Debug, Clone)]
pub(crate) enum Host {
    /// The keeper: independent of every runtime of the program.
    Keeper,
    /// One runtime of the program, whose clock may be paused.
    Runtime(Handle),
}

impl Host {
    /// The runtime of the caller, or the keeper where there is none.
    pub(crate) fn of_caller() -> Self {
        Handle::try_current().map_or(Self::Keeper, Self::Runtime)
    }

    /// `None`: the keeper.
    pub(crate) fn runtime_id(&self) -> Option<runtime::Id> {
        match self {
            Self::Keeper => None,
            Self::Runtime(handle) => Some(handle.id()),
        }
    }

    pub(crate) fn spawn(
        &self,
        future: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), LockError> {
        match self {
            Self::Keeper => keeper::spawn(future),
            Self::Runtime(handle) => {
                drop(handle.spawn(future));
                Ok(())
            }
        }
    }
}
