//! What the lock protects: a number in a database that checks fencing tokens.

use super::plan::Tick;
use crate::fencing::FencingToken;

/// The three steps that the documentation of [`FencingToken`] asks for. A write may be on its way
/// for long after its writer has lost the lock.
#[derive(Debug, Default)]
pub(super) struct Resource {
    fence: Option<FencingToken>,
    value: u64,
    under_way: Vec<Write>,
}

#[derive(Debug, Clone, Copy)]
struct Write {
    lands: Tick,
    fencing_token: FencingToken,
    /// What its writer had read.
    base: u64,
}

/// An accepted write was based on something else than what it replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LostUpdate;

impl Resource {
    /// Claims, then reads; `None`: a newer holder was here.
    pub(super) fn claim(&mut self, fencing_token: FencingToken) -> Option<u64> {
        if self.fence > Some(fencing_token) {
            return None;
        }
        self.fence = Some(fencing_token);
        Some(self.value)
    }

    pub(super) fn write(&mut self, lands: Tick, fencing_token: FencingToken, base: u64) {
        self.under_way.push(Write { lands, fencing_token, base });
    }

    /// Carries out the writes that have landed by `now`.
    pub(super) fn settle(&mut self, now: Tick) -> Result<(), LostUpdate> {
        while let Some(at) = self.next(now) {
            let write = self.under_way.swap_remove(at);
            if self.fence == Some(write.fencing_token) {
                if self.value != write.base {
                    return Err(LostUpdate);
                }
                self.value += 1;
            }
        }
        Ok(())
    }

    fn next(&self, now: Tick) -> Option<usize> {
        let landed = self.under_way.iter().enumerate().filter(|(_, write)| write.lands <= now);
        landed.min_by_key(|(_, write)| write.lands).map(|(at, _)| at)
    }
}
