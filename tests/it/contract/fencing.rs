//! Fencing tokens: every hold has a higher one, whatever the server has forgotten.

use redlock::{FencingToken, Redlock};

use super::place::{KEY, Place};

/// The fencing token of a hold that is over when this returns.
pub async fn next(client: &Redlock) -> FencingToken {
    let guard = client.lock(KEY).acquire().await.unwrap();
    let fencing_token = guard.fencing_token();
    guard.release().await.unwrap();
    fencing_token
}

pub async fn fencing_tokens_grow_with_every_hold(place: &Place) {
    let client = place.client().await;
    let mut last = next(&client).await;
    for _ in 0..50 {
        let fencing_token = next(&client).await;
        assert!(fencing_token > last, "{fencing_token} after {last}");
        last = fencing_token;
    }
}

pub async fn fencing_tokens_grow_across_clients(place: &Place) {
    let clients = [place.client().await, place.client().await];
    let mut last = next(&clients[0]).await;
    for n in 1..20 {
        let fencing_token = next(&clients[n % 2]).await;
        assert!(fencing_token > last, "{fencing_token} after {last}");
        last = fencing_token;
    }
}

pub async fn fencing_tokens_grow_after_the_marks_are_lost(place: &Place) {
    let client = place.client().await;
    let mut last = next(&client).await;
    for _ in 0..5 {
        place.lose_marks().await;
        let fencing_token = next(&client).await;
        assert!(fencing_token > last, "{fencing_token} after {last}");
        last = fencing_token;
    }
}

pub async fn fencing_tokens_grow_after_all_data_is_lost(place: &Place) {
    let before = next(&place.client().await).await;
    place.lose_data().await;
    let after = next(&place.client().await).await;
    assert!(after > before, "{after} after {before}");
}

/// They pass through JSON, Lua and SQL unharmed.
pub async fn fencing_tokens_are_exact_in_a_double(place: &Place) {
    let fencing_token = next(&place.client().await).await;
    let number = u64::from(fencing_token);
    assert!((1..1 << 53).contains(&number), "{number}");
    assert_eq!(i64::from(fencing_token).unsigned_abs(), number);
    assert_eq!(fencing_token.to_string(), number.to_string());
}
