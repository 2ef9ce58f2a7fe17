//! Captured events carry their level, fields and spans, from every thread.

use tracing::{Level, debug, debug_span, info_span, warn};

use crate::support::{capture, ms, secs, unique_prefix};

#[tokio::test]
async fn events_are_found_by_what_they_say() {
    let captured = capture();
    let key = unique_prefix();
    debug!(key, renewals = 3, "renewed");
    warn!("lost {key}");
    debug!("about something else");
    let about: Vec<_> = captured.about(&key);
    assert_eq!(
        about.iter().map(|event| event.level).collect::<Vec<_>>(),
        [Level::DEBUG, Level::WARN]
    );
    assert_eq!((about[0].message.as_str(), about[0].field("renewals")), ("renewed", Some("3")));
    assert_eq!(about[0].target, "it::support_events");
    assert_eq!(captured.warnings_about(&key).len(), 1);
    drop(captured);
    let later = capture();
    assert_eq!(later.about(&key).len(), 0, "an older event is not of this capture");
}

#[tokio::test]
async fn spans_are_known_across_threads() {
    let captured = capture();
    let key = unique_prefix();
    let outer = info_span!("redlock", key, waited = tracing::field::Empty);
    let inner = debug_span!(parent: &outer, "inner");
    outer.record("waited", 12);
    let thread = std::thread::spawn(move || inner.in_scope(|| debug!("released")));
    thread.join().unwrap();
    let event = captured.wait_for(secs(5), &key, "released").await;
    assert_eq!(event.spans.iter().map(|span| span.name).collect::<Vec<_>>(), ["redlock", "inner"]);
    assert_eq!((event.field("key"), event.field("waited")), (Some(key.as_str()), Some("12")));
    let current = outer.in_scope(tracing::Span::current);
    assert_eq!(current.id(), outer.id());
}

#[tokio::test]
async fn a_missing_event_is_told_with_those_that_came() {
    let captured = capture();
    let key = unique_prefix();
    debug!(key, "acquired");
    let wait = tokio::spawn(async move { captured.wait_for(ms(20), &key, "released").await });
    let text = wait.await.expect_err("it never comes").into_panic();
    let text = text.downcast_ref::<String>().expect("a message");
    assert!(text.contains("acquired"), "{text}");
}
