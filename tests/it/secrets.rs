//! No password ever shows: not in an error, not in `Debug`, not in an event.

use std::fmt::{Debug, Display};

use deadpool_redis::{Config, Runtime};
use redlock::{LockError, NodeErrorKind, Redlock};

use crate::support::{Server, capture, secs};

/// Long enough to be found wherever it stands, also in part.
const SECRET: &str = "hunter2-Zq9vXw71";
const PART: &str = "Zq9vXw71";

#[track_caller]
fn assert_hidden(what: &(impl Debug + ?Sized)) {
    let shown = format!("{what:?} {what:#?}");
    assert!(!shown.contains(PART), "{shown}");
}

#[track_caller]
fn assert_error_hidden(error: &(impl Debug + Display + ?Sized)) {
    assert_hidden(error);
    assert!(!error.to_string().contains(PART), "{error}");
}

/// What one client shows of itself from its builder to its last guard.
async fn live(url: &str, name: &str) {
    let builder = Redlock::builder().url(url);
    assert_hidden(&builder);
    let redlock = builder.build().await.unwrap();
    assert_hidden(&redlock);
    let request = redlock.lock(format!("secrets-{name}"));
    assert_hidden(&request);
    let guard = request.acquire().await.unwrap();
    assert_hidden(&guard);
    assert_hidden(guard.lease());
    assert_hidden(&redlock.held());
    assert_error_hidden(&redlock.lock(guard.key()).wait(secs(0)).acquire().await.unwrap_err());
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_client_with_a_password_never_shows_it() {
    let captured = capture();
    let server = Server::builder()
        .requirepass(SECRET)
        .acl(&format!("checkout on >{SECRET} ~* &* +@all"))
        .start()
        .await;
    live(&server.url_with_password(), "password").await;
    live(&server.url_for("checkout", SECRET), "user").await;
    let pool = Config::from_url(server.url_with_password()).create_pool(Some(Runtime::Tokio1));
    let builder = Redlock::builder().pool(pool.unwrap());
    assert_hidden(&builder);
    let redlock = builder.build().await.unwrap();
    assert_hidden(&redlock);
    assert_hidden(&redlock.lock("k").acquire().await.unwrap());
    server.kill9();
    let error = redlock.lock("gone").wait(secs(0)).acquire().await.unwrap_err();
    assert!(matches!(error, LockError::Unavailable { .. }), "{error:?}");
    assert_error_hidden(&error);
    assert_hidden(&captured.all());
}

#[tokio::test]
async fn a_refused_login_never_shows_the_password() {
    let captured = capture();
    let server = Server::builder().requirepass("right").start().await;
    let pool = Config::from_url(format!("redis://:{SECRET}@{}", server.addr()));
    let pool = pool.create_pool(Some(Runtime::Tokio1)).unwrap();
    let logins = [
        Redlock::builder().url(format!("redis://:{SECRET}@{}", server.addr())),
        Redlock::builder().url(server.url_for("nobody", SECRET)),
        Redlock::builder().pool(pool),
    ];
    for builder in logins {
        let error = builder.clone().build().await.unwrap_err();
        assert_error_hidden(&error);
        let LockError::Unavailable { nodes, .. } = &error else { panic!("{error:?}") };
        assert_eq!(nodes[0].kind(), NodeErrorKind::Authentication, "{error}");
        let lazy = builder.lazy().build().await.unwrap();
        let error = lazy.lock("k").acquire().await.unwrap_err();
        assert_error_hidden(&error);
    }
    assert_hidden(&captured.all());
}

/// Also where it stands in a place that makes the URL wrong.
#[tokio::test]
async fn a_bad_url_never_shows_the_password() {
    let captured = capture();
    for url in [
        "redis://:{}@127.0.0.1:notaport",
        "redis://user:{}@127.0.0.1:1",
        "redis://user:{}@[::1:1",
        "redis://user:{}@",
        "redis://:{}",
        "redis://user:{}/0",
        "redis://user:{}@127.0.0.1:1/notadb",
        "redis://user:a/{}@127.0.0.1:1",
        "redis://user:a#{}@127.0.0.1:1",
        "redis://user:a?{}@127.0.0.1:1",
        "redis://user:a@{}@127.0.0.1:notaport",
        "redis://user:%ZZ{}@127.0.0.1:1",
        "redis:/user:{}@127.0.0.1",
        "http://user:{}@127.0.0.1",
        "rediss://user:{}@127.0.0.1:1/#insecure",
        "rediss://user:{}@127.0.0.1:1",
        "unix:///nowhere.sock?pass={}&user=u",
        "unix:///nowhere.sock?db=x&pass={}",
        "user:{}@127.0.0.1:6379",
        "user:{}",
        "{}",
        "redis://user/{}@127.0.0.1:1",
        "redis://{}#a@127.0.0.1:1",
        "user:{}://127.0.0.1",
    ] {
        let url = url.replace("{}", SECRET);
        assert_hidden(&Redlock::builder().url(&url));
        let error = Redlock::connect(&url).await.expect_err("it cannot work");
        assert_error_hidden(&error);
    }
    assert_hidden(&captured.all());
}
