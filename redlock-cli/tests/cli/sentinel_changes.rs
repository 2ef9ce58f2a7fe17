//! A master that sentinels watch, and another one in its place.

use fault_kit::{Server, secs};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::doctor::documented;
use crate::operators::next_event;
use crate::support::{ended, tool};

/// A sentinel that watches this server.
async fn watching(server: &Server) -> Server {
    let monitor = format!("sentinel monitor m 127.0.0.1 {} 1", server.port());
    Server::builder().config(&monitor).sentinel().start().await
}

/// The one before still answers, as one does that is cut off from the sentinels.
#[tokio::test]
async fn watch_leaves_a_master_that_was_replaced() {
    let (one, other) = (Server::start().await, Server::start().await);
    assert!(one.raw().set_foreign_lock("lock:k", "web-1:x", secs(600)).await);
    assert!(other.raw().set_foreign_lock("lock:k", "web-2:y", secs(600)).await);
    let sentinel = watching(&one).await;
    let args = ["--sentinel", "m", "watch", "k", "--json", "--interval", "20ms"];
    let mut watch = tool(&sentinel.url(), &args).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    assert_eq!(next_event(&mut lines).await, ("held".to_owned(), "web-1:x".into()));
    let port = other.port().to_string();
    sentinel.raw().cmd(&["SENTINEL", "REMOVE", "m"]).await;
    sentinel.raw().cmd(&["SENTINEL", "MONITOR", "m", "127.0.0.1", &port, "1"]).await;
    assert_eq!(next_event(&mut lines).await, ("taken".to_owned(), "web-2:y".into()));
    watch.kill().await.unwrap();
}

#[tokio::test]
async fn the_rights_at_a_master_that_sentinels_watch() {
    let viewer = documented("acl-viewer");
    let server = Server::builder()
        .acl(&viewer)
        .acl(&format!("{viewer} +role").replacen("viewer", "asking", 1))
        .acl("silent on >secret ~* &* +@all -role")
        .start()
        .await;
    assert!(server.raw().set_foreign_lock("lock:k", "web-1:x", secs(600)).await);
    let sentinel = watching(&server).await;
    let of = async |user: &str, args: &[&str]| {
        let mut command = tool(&sentinel.url(), args);
        command.env("REDLOCK_SENTINEL", format!("redis://{user}:secret@m"));
        ended(command.spawn().unwrap()).await
    };
    for args in [&["show", "k"][..], &["ls"]] {
        let seen = of("asking", args).await;
        assert!(seen.code == 0 && seen.stdout.contains("web-1:x"), "{seen:?}");
        let refused = of("viewer", args).await;
        assert!(refused.code == 69 && refused.stderr.contains("NOPERM"), "{refused:?}");
    }
    let silent = of("silent", &["doctor"]).await;
    assert!(silent.stdout.contains("less to do with +role"), "{silent:?}");
    let asking = of("asking", &["doctor"]).await;
    assert!(!asking.stdout.contains("+role"), "{asking:?}");
}
