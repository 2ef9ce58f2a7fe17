//! Re-entry: the same key, client and task.

use redlock::{Lease, Released, Wait};

use super::place::{KEY, Place};
use crate::clients::holder;
use crate::support::ms;

pub async fn the_same_task_re_enters(place: &Place) {
    let client = place.client().await;
    let body = async {
        let outer = Lease::current().unwrap();
        let inner = client.lock(KEY).wait(Wait::Never).acquire().await.expect("it is ours");
        assert_eq!((inner.owner(), inner.fencing_token()), (outer.owner(), outer.fencing_token()));
        assert_eq!(client.held().len(), 1, "one hold");
        // What runs below the guard runs in its turn.
        let deeper = client.lock(KEY).run(async { Lease::current().unwrap().fencing_token() });
        assert_eq!(inner.protect(deeper).await.unwrap().unwrap(), outer.fencing_token());
    };
    client.lock(KEY).run(body).await.unwrap();
    assert!(place.is_free(KEY).await);
}

pub async fn a_re_entered_guard_releases_nothing(place: &Place) {
    let client = place.client().await;
    let body = async {
        let owner = Lease::current().unwrap().owner().to_owned();
        let inner = client.lock(KEY).acquire().await.unwrap();
        assert_eq!(inner.release().await.unwrap(), Released::Released);
        drop(client.lock(KEY).acquire().await.unwrap());
        assert_eq!(client.shutdown(ms(5_000)).await, 0);
        assert_eq!(place.owner(KEY).await, Some(owner), "the outer hold stays");
        Lease::current().unwrap().check().unwrap();
    };
    client.lock(KEY).run(body).await.unwrap();
    assert!(place.is_free(KEY).await);
}

pub async fn another_task_does_not_re_enter(place: &Place) {
    let client = place.client().await;
    let body = async {
        let request = client.lock(KEY);
        let other = tokio::spawn(async move {
            assert!(Lease::current().is_none(), "a lease does not leak into other tasks");
            request.try_acquire().await.map(|guard| guard.is_none())
        });
        assert!(other.await.unwrap().unwrap(), "another task is another caller");
    };
    client.lock(KEY).run(body).await.unwrap();
}

pub async fn a_scoped_task_re_enters(place: &Place) {
    let client = place.client().await;
    let body = async {
        let lease = Lease::current().unwrap();
        let (request, expected) = (client.lock(KEY).wait(Wait::Never), lease.owner().to_owned());
        let other = tokio::spawn(lease.scope(async move {
            let guard = request.acquire().await.unwrap();
            assert_eq!(guard.owner(), expected);
        }));
        other.await.unwrap();
    };
    client.lock(KEY).run(body).await.unwrap();
}

pub async fn another_client_does_not_re_enter(place: &Place) {
    let (client, other) = (place.client().await, place.client().await);
    let body = async {
        let owner = Lease::current().unwrap().owner().to_owned();
        assert_eq!(holder(other.lock(KEY).wait(ms(20)).acquire().await), owner);
    };
    client.lock(KEY).run(body).await.unwrap();
}

pub async fn leases_nest_and_come_back(place: &Place) {
    let client = place.client().await;
    let current = || Lease::current().map(|lease| lease.key().to_owned());
    let body = async {
        assert_eq!(current().as_deref(), Some("a"));
        let inner = client.lock("b").run(async {
            assert_eq!(current().as_deref(), Some("b"));
            // Not the innermost, but held by this task all the same.
            client.lock("a").wait(Wait::Never).run(async { current() }).await.unwrap()
        });
        assert_eq!(inner.await.unwrap().as_deref(), Some("a"));
        assert_eq!(current().as_deref(), Some("a"));
    };
    Box::pin(client.lock("a").run(body)).await.unwrap();
    assert_eq!(current(), None);
    assert!(place.is_free("a").await && place.is_free("b").await);
}
