//! Captures what a library reports through `tracing`, so that tests can assert it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError, Weak};
use std::time::Duration;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Level, Metadata, Subscriber};
use tracing_core::span::Current;

use crate::eventually::eventually;

/// One event, with the spans around it from the outermost in.
#[derive(Debug, Clone)]
pub struct Event {
    /// How grave it is.
    pub level: Level,
    /// The module that reported it, unless it named another.
    pub target: String,
    /// The text of the event, without its fields.
    pub message: String,
    /// All fields but the message.
    pub fields: Fields,
    /// The spans around it, from the outermost in.
    pub spans: Vec<SpanData>,
}

/// A span as it was when the event came.
#[derive(Debug, Clone)]
pub struct SpanData {
    /// The name it was opened with.
    pub name: &'static str,
    /// The fields that it has so far.
    pub fields: Fields,
    metadata: &'static Metadata<'static>,
}

/// Names and values, the latter as text.
#[derive(Debug, Clone, Default)]
pub struct Fields(Vec<(&'static str, String)>);

/// The events of the whole process since `capture()`. Other tests run beside this one: look for
/// events about a key of your own.
#[derive(Debug)]
pub struct Capture(Arc<Mutex<Vec<Event>>>);

/// Starts to capture the events of the whole process, on all threads.
pub fn capture() -> Capture {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        tracing::subscriber::set_global_default(Recorder::default()).expect("no other subscriber");
    });
    let events = Arc::default();
    lock(&CAPTURES).push(Arc::downgrade(&events));
    Capture(events)
}

impl Capture {
    /// All of them, in order.
    pub fn all(&self) -> Vec<Event> {
        lock(&self.0).clone()
    }

    /// The events in which this text stands: in the message, a field, or a field of a span.
    pub fn about(&self, text: &str) -> Vec<Event> {
        self.all().into_iter().filter(|event| event.contains(text)).collect()
    }

    /// Those of them that are warnings or errors.
    pub fn warnings_about(&self, text: &str) -> Vec<Event> {
        self.about(text).into_iter().filter(|event| event.level <= Level::WARN).collect()
    }

    /// Waits for the first event about `text` whose message contains `message`.
    pub async fn wait_for(&self, bound: Duration, text: &str, message: &str) -> Event {
        let find = || async {
            let events = self.about(text);
            let found = events.iter().find(|event| event.message.contains(message)).cloned();
            found.ok_or_else(|| events.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        eventually(bound, find).await
    }
}

impl Event {
    /// A field of the event, or else of its innermost span that has it.
    pub fn field(&self, name: &str) -> Option<&str> {
        let in_spans = self.spans.iter().rev().find_map(|span| span.fields.get(name));
        self.fields.get(name).or(in_spans)
    }

    /// Whether this text stands in the message, a field, or a field of a span.
    pub fn contains(&self, text: &str) -> bool {
        self.message.contains(text)
            || self.fields.contains(text)
            || self.spans.iter().any(|span| span.fields.contains(text))
    }
}

impl Fields {
    /// The value that was recorded last under this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        let newest_first = self.0.iter().rev();
        newest_first.into_iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }

    fn contains(&self, text: &str) -> bool {
        self.0.iter().any(|(_, value)| value.contains(text))
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.push((field.name(), value.to_owned()));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.push((field.name(), format!("{value:?}")));
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.level, self.target, self.message)?;
        self.fields.0.iter().try_for_each(|(name, value)| write!(f, " {name}={value}"))
    }
}

static CAPTURES: Mutex<Vec<Weak<Mutex<Vec<Event>>>>> = Mutex::new(Vec::new());

thread_local! {
    /// The spans that this thread is in.
    static ENTERED: RefCell<Vec<Id>> = const { RefCell::new(Vec::new()) };
}

#[derive(Debug, Default)]
struct Recorder {
    next: AtomicU64,
    spans: Mutex<HashMap<u64, Span>>,
}

#[derive(Debug)]
struct Span {
    data: SpanData,
    parent: Option<Id>,
    handles: usize,
}

impl Recorder {
    fn path(&self, innermost: Option<Id>) -> Vec<SpanData> {
        let spans = lock(&self.spans);
        let up = |id: &Id| spans.get(&id.into_u64()).and_then(|span| span.parent.clone());
        let ids = std::iter::successors(innermost, up);
        let mut path: Vec<_> =
            ids.filter_map(|id| spans.get(&id.into_u64()).map(|span| span.data.clone())).collect();
        path.reverse();
        path
    }
}

impl Subscriber for Recorder {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let id = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        let mut fields = Fields::default();
        span.record(&mut fields);
        let parent = span.parent().cloned();
        let parent = parent.or_else(|| entered().filter(|_| span.is_contextual()));
        let metadata = span.metadata();
        let data = SpanData { name: metadata.name(), fields, metadata };
        lock(&self.spans).insert(id, Span { data, parent, handles: 1 });
        Id::from_u64(id)
    }

    fn record(&self, id: &Id, values: &Record<'_>) {
        if let Some(span) = lock(&self.spans).get_mut(&id.into_u64()) {
            values.record(&mut span.data.fields);
        }
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let message = fields.get("message").unwrap_or_default().to_owned();
        fields.0.retain(|(name, _)| *name != "message");
        let parent = event.parent().cloned();
        let spans = self.path(parent.or_else(|| entered().filter(|_| event.is_contextual())));
        let target = event.metadata().target().to_owned();
        let event = Event { level: *event.metadata().level(), target, message, fields, spans };
        lock(&CAPTURES).retain(|capture| {
            let Some(events) = capture.upgrade() else { return false };
            lock(&events).push(event.clone());
            true
        });
    }

    fn enter(&self, id: &Id) {
        ENTERED.with_borrow_mut(|entered| entered.push(id.clone()));
    }

    fn exit(&self, id: &Id) {
        ENTERED.with_borrow_mut(|entered| {
            if let Some(at) = entered.iter().rposition(|inside| inside == id) {
                entered.remove(at);
            }
        });
    }

    fn clone_span(&self, id: &Id) -> Id {
        if let Some(span) = lock(&self.spans).get_mut(&id.into_u64()) {
            span.handles += 1;
        }
        id.clone()
    }

    fn try_close(&self, id: Id) -> bool {
        let mut spans = lock(&self.spans);
        let Some(span) = spans.get_mut(&id.into_u64()) else { return false };
        span.handles -= 1;
        let closed = span.handles == 0;
        if closed {
            spans.remove(&id.into_u64());
        }
        closed
    }

    fn current_span(&self) -> Current {
        let current = entered().and_then(|id| {
            let metadata = lock(&self.spans).get(&id.into_u64())?.data.metadata;
            Some(Current::new(id, metadata))
        });
        current.unwrap_or_else(Current::none)
    }
}

fn entered() -> Option<Id> {
    ENTERED.with_borrow(|entered| entered.last().cloned())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
