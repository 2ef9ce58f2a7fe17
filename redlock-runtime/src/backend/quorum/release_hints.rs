//! Tells a waiter once the lock was released on enough nodes for a quorum to be free.

use std::sync::Arc;
use std::time::Duration;

use super::backend::Quorum;
use super::broadcast::{NodeQuestion, Reach};
use super::member::Member;
use crate::backend::{Claim, Found, HintRegistration, OnRelease, ReleaseHints, Reply};
use crate::mutex::Mutex;

impl ReleaseHints for Quorum {
    fn request_hint<'a>(
        &'a self,
        claim: &'a Claim,
        on_release: OnRelease,
        within: Duration,
    ) -> Reply<'a, HintRegistration> {
        Box::pin(async move {
            let nodes = self.members.len();
            // The holder can no longer have a quorum once the lock is free on one node more than
            // this.
            let spare = nodes - self.needed;
            let free = Arc::new(Mutex::new(vec![false; nodes]));
            let ask = |member: Arc<Member>| -> NodeQuestion<HintRegistration> {
                let (claim, number) = (claim.clone(), member.number);
                let (on_release, free) = (Arc::clone(&on_release), Arc::clone(&free));
                let on_release_here: OnRelease = Arc::new(move || {
                    let mut free = free.lock();
                    let is_news = !std::mem::replace(&mut free[number], true);
                    let count = free.iter().filter(|is_free| **is_free).count();
                    drop(free);
                    if is_news && count == spare + 1 {
                        on_release();
                    }
                });
                Box::pin(async move {
                    match member.backend.abilities().release_hints {
                        Some(hints) => hints.request_hint(&claim, on_release_here, within).await,
                        None => Ok(HintRegistration::default()),
                    }
                })
            };
            let answers = self.ask_all(Reach::Admitted, ask, |_| false).await;
            // Where a node has not answered, the request may stay.
            let unknown = || HintRegistration::default().staying();
            let one = |answer: Option<_>| answer.and_then(Result::ok).unwrap_or_else(unknown);
            Ok(answers.into_iter().map(one).collect::<HintRegistration>().by(free))
        })
    }

    fn cancel_hint<'a>(&'a self, claim: &'a Claim, within: Duration) -> Reply<'a, Found> {
        Box::pin(async move {
            let ask = |member: Arc<Member>| -> NodeQuestion<Found> {
                let claim = claim.clone();
                Box::pin(async move {
                    match member.backend.abilities().release_hints {
                        Some(hints) => hints.cancel_hint(&claim, within).await,
                        None => Ok(Found::Gone),
                    }
                })
            };
            self.settle(Reach::Admitted, ask).await
        })
    }
}
