//! Requests release hints from a server, where waiters do not queue.

use std::sync::Arc;
use std::time::Duration;

use super::commands::exclusive::release_hint::HintReply;
use super::commands::{Deadline, exclusive, no_undo, send_script};
use super::connection::Source;
use super::pubsub::NOBODY;
use super::route::Route;
use crate::backend::{Claim, Found, HintRegistration, OnRelease, Release, ReleaseHints, Reply};

impl<S: Source> ReleaseHints for Route<S> {
    fn request_hint<'a>(
        &'a self,
        claim: &'a Claim,
        on_release: OnRelease,
        within: Duration,
    ) -> Reply<'a, HintRegistration> {
        Box::pin(async move {
            let core = &self.core;
            let deadline = Deadline::after(within);
            let channel = core.registry.channel_within(within).await;
            if channel == NOBODY {
                return Ok(HintRegistration::default());
            }
            // Registered before the command leaves: the hint may come before the answer.
            let registration = core.registry.expect(claim, Arc::clone(&on_release));
            let call = exclusive::release_hint::call(claim, channel);
            let decode = exclusive::release_hint::decode;
            let answer =
                send_script(&core.health, &self.connection, &call, &deadline, decode, no_undo)
                    .await?;
            match answer.reply {
                HintReply::Free => on_release(),
                HintReply::Once => {}
                HintReply::Stays => return Ok(registration.staying()),
            }
            Ok(registration)
        })
    }

    fn cancel_hint<'a>(&'a self, claim: &'a Claim, within: Duration) -> Reply<'a, Found> {
        Box::pin(async move { self.release_over(&Release::leaving(claim), within, false).await })
    }
}
