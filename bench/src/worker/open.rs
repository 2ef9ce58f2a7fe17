//! Arrivals by chance: each is a task of its own, and none waits for those before it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;

use super::subject::{Body, Subject};
use super::timer;
use crate::monotonic;
use crate::plan::{Arrival, Tally};

/// What became of one arrival, written where it happens.
#[derive(Debug, Default)]
pub struct Entry {
    called: AtomicU64,
    began: AtomicU64,
    ended: AtomicU64,
}

impl Entry {
    pub fn begin(&self, moment: u64) {
        self.began.store(moment, Ordering::Relaxed);
    }

    pub fn end(&self, moment: u64) {
        self.ended.store(moment, Ordering::Relaxed);
    }

    fn has_begun(&self) -> bool {
        self.began.load(Ordering::Relaxed) > 0
    }

    /// Moments as the harness wants them.
    fn tell(&self, scheduled: u64, begin: u64) -> Arrival {
        let since = |moment: &AtomicU64| moment.load(Ordering::Relaxed).saturating_sub(begin);
        [scheduled, since(&self.called), since(&self.began), since(&self.ended)]
    }
}

/// The arrivals of one worker.
pub struct Generator<S> {
    pub subject: S,
    pub key: String,
    pub body: Body,
    /// After `begin`, in order.
    pub scheduled: Vec<u64>,
    pub begin: u64,
    pub gives_up: u64,
    /// Of all generators of the process.
    pub outstanding: Arc<AtomicUsize>,
    pub at_most: usize,
}

impl<S: Subject> Generator<S> {
    pub async fn work(self) -> (Tally, Vec<Arrival>) {
        let entries: Vec<Arc<Entry>> = self.scheduled.iter().map(|_| Arc::default()).collect();
        let errors = Arc::new(Errors::default());
        let mut tasks = JoinSet::new();
        for (entry, after) in entries.iter().zip(&self.scheduled) {
            timer::until(self.begin + after).await;
            if self.outstanding.fetch_add(1, Ordering::Relaxed) >= self.at_most {
                self.outstanding.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            entry.called.store(monotonic::now(), Ordering::Relaxed);
            let body = Body { entry: Some(Arc::clone(entry)), ..self.body.clone() };
            let (subject, key) = (self.subject.clone(), self.key.clone());
            let outstanding = Arc::clone(&self.outstanding);
            let (entry, errors) = (Arc::clone(entry), Arc::clone(&errors));
            tasks.spawn(async move {
                serve(&subject, &key, &body, &entry, &errors).await;
                outstanding.fetch_sub(1, Ordering::Relaxed);
            });
        }
        let left = Duration::from_nanos(self.gives_up.saturating_sub(monotonic::now()));
        let all = async { while tasks.join_next().await.is_some() {} };
        // Whoever still waits then is told of as not served.
        let _ = tokio::time::timeout(left, all).await;
        tasks.shutdown().await;
        let scheduled = entries.iter().zip(&self.scheduled);
        let arrivals: Vec<_> =
            scheduled.map(|(entry, &after)| entry.tell(after, self.begin)).collect();
        let mut tally = errors.tally();
        tally.holds = arrivals.iter().map(|[.., ended]| u64::from(*ended > 0)).sum();
        (tally, arrivals)
    }
}

/// One arrival. After an error it calls again, and its wait goes on; an error after the body is
/// one of the release.
async fn serve<S: Subject>(subject: &S, key: &str, body: &Body, entry: &Entry, errors: &Errors) {
    while let Err(error) = subject.visit(key, body.clone()).await {
        errors.note(&error);
        if entry.has_begun() {
            return;
        }
    }
}

#[derive(Debug, Default)]
struct Errors {
    count: AtomicU64,
    first: std::sync::OnceLock<String>,
}

impl Errors {
    fn note(&self, error: &crate::Failure) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.first.get_or_init(|| error.to_string());
    }

    fn tally(&self) -> Tally {
        let errors = self.count.load(Ordering::Relaxed);
        Tally { errors, first_error: self.first.get().cloned(), ..Tally::default() }
    }
}
