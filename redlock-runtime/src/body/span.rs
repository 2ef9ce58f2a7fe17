//! The span in which a body runs.

use std::time::Duration;

use tracing::Span;

use crate::hold::Hold;

/// The span of a body under `hold`. `template`: the one of its call, which is not that of the hold
/// where the call re-entered; `waited`: how long that call waited for the lock. It has a target of
/// its own, so that a filter can name it without the events of the level `DEBUG`.
pub(crate) fn span(hold: &Hold, template: &'static str, waited: Duration) -> Span {
    tracing::debug_span!(
        target: "redlock::span",
        "redlock",
        key = hold.claim.key.name(),
        keys = hold.several_names().map(tracing::field::debug),
        template,
        fencing_token = %hold.fencing_token,
        ?waited,
    )
}

#[cfg(test)]
mod tests {
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Dispatch, Event, Metadata, Subscriber};

    use super::*;
    use crate::tests::fake::fake;

    /// Enables what the filter `redlock::span=debug` does.
    struct Spans;

    impl Subscriber for Spans {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            metadata.target() == "redlock::span"
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, _: &Event<'_>) {}

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    #[tokio::test(start_paused = true)]
    async fn a_filter_can_name_the_spans_alone() {
        let _default = tracing::subscriber::set_default(Spans);
        // Where there is one subscriber only, it does not hear of spans that a thread of another
        // test makes first.
        let _second = Dispatch::new(Spans);
        let (redlock, _fake) = fake();
        let guard = redlock.lock("k").acquire().await.unwrap();
        let span = span(guard.lease().hold(), "t", Duration::ZERO);
        assert_eq!(span.metadata().map(Metadata::name), Some("redlock"));
    }
}
