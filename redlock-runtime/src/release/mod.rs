//! Release: the task that sends it, even when its caller has gone, and the clean-up after
//! unanswered commands.

mod all_releases;
mod awaited;
mod background;
mod clean_up;
mod inline_release;
mod reaper;
mod release_future;
mod repetition;
mod task;
mod unawaited;
mod unprotected;

pub(crate) use all_releases::{all, send_all};
pub(crate) use background::{free, in_background};
pub(crate) use clean_up::{clean_up, leave};
pub(crate) use release_future::ReleaseFuture;
pub(crate) use task::{FormerHold, ReleaseTask};
pub(crate) use unawaited::unawaited;
pub(crate) use unprotected::{FinishedBody, report, warn_unprotected};
