//! Hears the events that are told on the thread of a test.

use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Dispatch, Event, Metadata, Subscriber};

/// Hears events until it is dropped.
pub(crate) struct Hearing {
    _default: DefaultGuard,
    _second: Dispatch,
}

/// Calls `on_event` for each event of this thread.
pub(crate) fn hear(on_event: impl Fn(&Event<'_>) + Send + Sync + 'static) -> Hearing {
    Hearing {
        _default: tracing::subscriber::set_default(OnEvent(on_event)),
        // Where there is one subscriber only, it does not hear of events that a thread of another
        // test tells first.
        _second: Dispatch::new(OnEvent(|_: &Event<'_>| {})),
    }
}

struct OnEvent<F>(F);

impl<F: Fn(&Event<'_>) + 'static> Subscriber for OnEvent<F> {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event()
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        (self.0)(event);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
