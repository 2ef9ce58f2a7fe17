//! Releases a lock of a server, or leaves its queue.

use std::time::Duration;

use super::clock::CLOCK;
use super::commands::{Deadline, ScriptCall, by_kind, exclusive, no_undo, send_script};
use super::connection::Source;
use super::route::{Route, is_queue_out_of_reach};
use crate::backend::{CLAIM_WINDOW, Claim, Fault, Found, Release};
use crate::error::NodeErrorKind;

impl<S: Source> Route<S> {
    pub(super) async fn release_within(
        &self,
        release: Release<'_>,
        within: Duration,
    ) -> Result<Found, Fault> {
        self.retire_owner(&release);
        self.release_over(&release, within, false).await
    }

    /// The owner releases, and is never used again.
    pub(super) fn retire_owner(&self, release: &Release<'_>) {
        self.core.pending_undos.forget(&release.claim.owner);
        if release.may_be_queued {
            self.core.registry.gave_up(release.claim);
        }
    }

    /// To be called after the answer to a release only: for an owner that was served, a signal that
    /// comes late has the lock released over another connection, which could overtake the release.
    fn note_released(&self, release: &Release<'_>) {
        if release.was_queued && !release.may_be_queued {
            self.core.registry.note_served(release.claim);
        }
    }

    /// Releases a lock, or leaves its queue, over `connection`. `may_have_run`: an earlier try may
    /// have been carried out.
    pub(super) async fn release_over(
        &self,
        release: &Release<'_>,
        within: Duration,
        may_have_run: bool,
    ) -> Result<Found, Fault> {
        let (core, deadline) = (&self.core, Deadline::after(within));
        let mut has_queue = !core.release_keys_denial.lasts(|| CLOCK.now());
        let mut refused: Option<(NodeErrorKind, bool)> = None;
        let answer = loop {
            let only_at = release.only_at.cloned();
            let call = ScriptCall { only_at, ..by_kind::release(*release, has_queue) };
            let (health, decode) = (&core.health, exclusive::release::decode);
            match send_script(health, &self.connection, &call, &deadline, decode, no_undo).await {
                Err(failure) if has_queue && is_queue_out_of_reach::<S>(&failure.error) => {
                    has_queue = false;
                    refused = Some((failure.error.kind(), failure.is_unknown));
                }
                answer => break answer,
            }
        };
        let may_have_run = may_have_run || refused.is_some_and(|(_, is_unknown)| is_unknown);
        let answer = answer.map_err(|failure| failure.unknown_if(may_have_run))?;
        match refused {
            None if has_queue => core.release_keys_denial.allowed(),
            // Remembered for an ACL only, which usually stays as it is: a slot that moves comes to
            // rest again.
            Some((NodeErrorKind::NoPermission, _)) => {
                core.release_keys_denial.denied(CLOCK.now());
            }
            _ => {}
        }
        let was_cut = answer.was_cut || may_have_run;
        Ok(self.conclude_release(*release, answer.reply, was_cut))
    }

    /// What a release means for its owner; has the watchdog look again where a waiter was handed
    /// the lock, or may have been. `was_cut`: the release was repeated, as the connection of its
    /// first try broke.
    pub(super) fn conclude_release(
        &self,
        release: Release<'_>,
        (found, is_awaited): (Found, bool),
        was_cut: bool,
    ) -> Found {
        self.note_released(&release);
        let found = match found {
            // That try may have freed the lock, or handed it over.
            Found::Gone | Found::Stolen if was_cut => Found::Unclear,
            found => found,
        };
        if is_awaited || found == Found::Unclear {
            let Claim { key, owner, .. } = release.claim;
            self.core.handovers.look_again(key, owner, release.retain.unwrap_or(CLAIM_WINDOW));
        }
        found
    }
}
