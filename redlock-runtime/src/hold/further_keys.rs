//! The keys of a hold besides its first one.

use std::sync::Weak;

use super::loss_listener::LossListener;
use crate::backend::Claim;
use crate::clock::Moment;

/// The further keys of a hold that `lock_all` made. They are renewed, lost and released with the
/// first one.
#[derive(Debug)]
pub(crate) struct FurtherKeys {
    /// In the order of keys.
    pub(crate) claims: Vec<Claim>,
    /// The waiters of this process, for each of these keys.
    pub(crate) listeners: Vec<Weak<dyn LossListener>>,
    /// When the last of the leases ends on a server that each key had when the hold was made.
    pub(crate) server_end: Moment,
}
