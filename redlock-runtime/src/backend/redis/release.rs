//! Releases a lock of a server, or leaves its queue.

use std::time::Duration;

use super::clock::CLOCK;
use super::commands::{
    Deadline, Failure, ScriptAnswer, ScriptCall, by_kind, exclusive, no_undo, send_script,
};
use super::connection::Source;
use super::route::{Route, is_queue_out_of_reach};
use crate::backend::{CLAIM_WINDOW, Claim, Fault, Found, Release};
use crate::error::NodeErrorKind;

/// What a release found, and whether somebody waits who has, or shall have, the lock next.
type ReleaseAnswer<S> = ScriptAnswer<(Found, bool), <S as Source>::Connection>;

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
        let (denial, deadline) = (&self.core.release_keys_denial, Deadline::after(within));
        let has_queue = !denial.lasts(|| CLOCK.now());
        let answer = match self.send_release(release, has_queue, &deadline).await {
            Err(failure) if has_queue && is_queue_out_of_reach::<S>(&failure.error) => {
                // Boxed: it is seldom needed.
                Box::pin(self.release_without_queue(release, &deadline, failure)).await
            }
            answer if has_queue => answer.inspect(|_| denial.allowed()),
            answer => answer,
        };
        let answer = answer.map_err(|failure| failure.unknown_if(may_have_run))?;
        Ok(self.conclude_release(*release, answer.reply, answer.was_cut || may_have_run))
    }

    async fn send_release(
        &self,
        release: &Release<'_>,
        has_queue: bool,
        deadline: &Deadline,
    ) -> Result<ReleaseAnswer<S>, Failure> {
        let only_at = release.only_at.cloned();
        let call = ScriptCall { only_at, ..by_kind::release(*release, has_queue) };
        let (health, decode) = (&self.core.health, exclusive::release::decode);
        send_script(health, &self.connection, &call, deadline, decode, no_undo).await
    }

    /// Releases the lock only, after a release that `failed` because the queue of the lock was out
    /// of reach.
    #[cold]
    async fn release_without_queue(
        &self,
        release: &Release<'_>,
        deadline: &Deadline,
        failed: Failure,
    ) -> Result<ReleaseAnswer<S>, Failure> {
        let answer = self.send_release(release, false, deadline).await;
        let answer = answer.map_err(|failure| failure.unknown_if(failed.is_unknown))?;
        // Remembered for an ACL only, which usually stays as it is: a slot that moves comes to rest
        // again.
        if failed.error.kind() == NodeErrorKind::NoPermission {
            self.core.release_keys_denial.denied(CLOCK.now());
        }
        Ok(ScriptAnswer { was_cut: answer.was_cut || failed.is_unknown, ..answer })
    }

    /// What a release means for its owner; has the watchdog look again where a waiter was handed
    /// the lock, or may have been. `was_cut`: the release was repeated, as the connection of its
    /// first try broke.
    pub(super) fn conclude_release(
        &self,
        release: Release<'_>,
        (found, is_waited_for): (Found, bool),
        was_cut: bool,
    ) -> Found {
        self.note_released(&release);
        let found = match found {
            // That try may have freed the lock, or handed it over.
            Found::Gone | Found::Stolen if was_cut => Found::Unclear,
            found => found,
        };
        if is_waited_for || found == Found::Unclear {
            let Claim { key, owner, .. } = release.claim;
            self.core.handovers.look_again(key, owner, release.retain.unwrap_or(CLAIM_WINDOW));
        }
        found
    }
}
