//! Functions that nest their locks in opposite orders are told, once; others never.

use redlock::{LockError, Redlock, redis_lock};

use crate::support::events::{Capture, Event};
use crate::support::{capture, ms};

#[redis_lock(key = "both-<n>", client = redlock)]
async fn inner(redlock: &Redlock, n: u32) -> Result<(), LockError> {
    Ok(())
}

#[redis_lock(key = "both-outer-<n>", client = redlock)]
async fn outer(redlock: &Redlock, n: u32) -> Result<(), LockError> {
    inner(redlock, n).await
}

#[redis_lock(key = "both-<n>", client = redlock)]
async fn inside_out(redlock: &Redlock, n: u32) -> Result<(), LockError> {
    redlock.lock(format!("both-outer-{n}")).label("both-outer-<n>").run(async {}).await
}

async fn client() -> Redlock {
    Redlock::builder().memory().build().await.unwrap()
}

fn warnings(captured: &Capture, text: &str) -> Vec<Event> {
    captured.warnings_about(text)
}

#[tokio::test]
async fn two_orders_are_told_once_with_both_templates_and_a_way_out() {
    let (captured, redlock) = (capture(), client().await);
    for n in 0..3 {
        outer(&redlock, n).await.unwrap();
    }
    assert!(warnings(&captured, "both-outer-<n>").is_empty(), "one order is no conflict");
    for n in 0..3 {
        // Other keys than before: the templates count.
        inside_out(&redlock, 10 + n).await.unwrap();
        outer(&redlock, n).await.unwrap();
    }
    let told = warnings(&captured, "both-outer-<n>");
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].field("order"), Some("both-<n> -> both-outer-<n> -> both-<n>"));
    assert!(told[0].message.contains("in both orders"), "{}", told[0]);
    assert!(told[0].message.contains("`Redlock::lock_all`"), "{}", told[0]);
    // Another client has locks of its own.
    inside_out(&client().await, 1).await.unwrap();
    assert_eq!(warnings(&captured, "both-outer-<n>").len(), 1);
}

/// Nests locks with these labels, the first one outside.
async fn nest(redlock: &Redlock, labels: [&'static str; 2]) {
    let [first, second] = labels;
    let inside = redlock.lock(second).label(second).run(async {});
    redlock.lock(first).label(first).run(inside).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_circle_of_three_is_told() {
    let (captured, redlock) = (capture(), client().await);
    nest(&redlock, ["circle-a", "circle-b"]).await;
    nest(&redlock, ["circle-b", "circle-c"]).await;
    assert!(warnings(&captured, "circle-").is_empty());
    nest(&redlock, ["circle-c", "circle-a"]).await;
    let told = warnings(&captured, "circle-");
    assert_eq!(told.len(), 1, "{told:?}");
    let order = "circle-c -> circle-a -> circle-b -> circle-c";
    assert_eq!(told[0].field("order"), Some(order));
    assert!(told[0].message.contains("in a circle"), "{}", told[0]);
}

#[redis_lock(key = "acct-of-orders-<from>", client = redlock)]
async fn transfer(redlock: &Redlock, from: u32, to: u32) -> Result<(), LockError> {
    receive(redlock, to).await
}

#[redis_lock(key = "acct-of-orders-<to>", client = redlock)]
async fn receive(redlock: &Redlock, to: u32) -> Result<(), LockError> {
    Ok(())
}

#[tokio::test]
async fn locks_of_one_template_that_are_not_sorted_are_told() {
    let (captured, redlock) = (capture(), client().await);
    for (from, to) in [(1, 2), (9, 10), (3, 3), (2, 30)] {
        transfer(&redlock, from, to).await.unwrap();
    }
    let pair = |text| {
        let told = warnings(&captured, text);
        assert!(told.iter().all(|event| event.message.contains("lock_all")), "{told:?}");
        told.len()
    };
    // Two templates: the second one is taken under the first one only.
    assert_eq!(pair("acct-of-orders-"), 0);
    let sorted = client().await;
    let lock = |key: &str| sorted.lock(key).label("unsorted-<id>");
    for (first, second, told) in [("u-9", "u-10", 0), ("u-1", "u-2", 0), ("u-2", "u-1", 1)] {
        let inside = lock(second).run(async {});
        lock(first).run(inside).await.unwrap().unwrap();
        assert_eq!(pair("unsorted-<id>"), told);
    }
}

/// Locks without a label, single attempts, and locks that are held one after the other.
#[tokio::test]
async fn what_cannot_be_named_or_does_not_wait_is_no_order() {
    let (captured, redlock) = (capture(), client().await);
    let lock = |name: &str| redlock.lock(format!("unnamed-{name}"));
    for (first, second) in [("a", "b"), ("b", "a")] {
        lock(first).run(lock(second).run(async {})).await.unwrap().unwrap();
    }
    for labels in [["tried-a", "tried-b"], ["tried-b", "tried-a"]] {
        let [first, second] = labels.map(|label| redlock.lock(label).label(label));
        let tried = second.try_acquire();
        assert!(first.run(tried).await.unwrap().unwrap().is_some());
    }
    for label in ["turn-a", "turn-b", "turn-a"] {
        redlock.lock(label).label(label).run(async {}).await.unwrap();
    }
    for text in ["unnamed-", "tried-", "turn-"] {
        let told = warnings(&captured, text);
        assert!(told.is_empty(), "{told:?}");
    }
}

#[redis_lock(key = "dead-a", wait = "300ms", client = redlock)]
async fn first_a(redlock: &Redlock) -> Result<(), LockError> {
    redlock.lock("dead-b").wait(ms(200)).run(std::future::pending()).await
}

#[tokio::test]
async fn the_error_of_a_deadlock_names_what_is_held() {
    let redlock = client().await;
    let _other = redlock.lock("dead-b").acquire().await.unwrap();
    let error = first_a(&redlock).await.unwrap_err();
    let LockError::Timeout { key, while_holding, .. } = &error else { panic!("{error}") };
    assert_eq!((key.as_str(), while_holding.as_slice()), ("dead-b", &["dead-a".to_owned()][..]));
    assert!(error.to_string().contains("this task holds `dead-a` meanwhile"), "{error}");
}

/// Locks several keys inside of others, all with one label or with two.
async fn nest_several(redlock: &Redlock, labels: [&'static str; 2], keys: [&[&str]; 2]) {
    let inside = redlock.lock_all(keys[1]).label(labels[1]).run(async {});
    redlock.lock_all(keys[0]).label(labels[0]).run(inside).await.unwrap().unwrap();
}

#[tokio::test]
async fn several_keys_count_as_one_lock_of_their_template() {
    let (captured, redlock) = (capture(), client().await);
    for _ in 0..2 {
        nest_several(&redlock, ["several-x", "several-y"], [&["a", "c"], &["b", "d"]]).await;
    }
    assert!(warnings(&captured, "several-").is_empty());
    for _ in 0..2 {
        nest_several(&redlock, ["several-y", "several-x"], [&["b", "d"], &["a", "c"]]).await;
    }
    let told = warnings(&captured, "several-");
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].field("order"), Some("several-y -> several-x -> several-y"));
}

#[tokio::test]
async fn several_keys_of_one_template_are_sorted_if_none_lies_between_others() {
    let (captured, redlock) = (capture(), client().await);
    nest_several(&redlock, ["sorted-k"; 2], [&["a", "b"], &["c", "d"]]).await;
    nest_several(&redlock, ["sorted-k"; 2], [&["k-8", "k-9"], &["k-10", "k-11"]]).await;
    assert!(warnings(&captured, "sorted-k").is_empty());
    nest_several(&redlock, ["between-k"; 2], [&["a", "d"], &["b"]]).await;
    assert_eq!(warnings(&captured, "between-k").len(), 1);
    nest_several(&redlock, ["around-k"; 2], [&["b"], &["a", "d"]]).await;
    nest_several(&redlock, ["around-k"; 2], [&["b"], &["a", "d"]]).await;
    assert_eq!(warnings(&captured, "around-k").len(), 1);
}
