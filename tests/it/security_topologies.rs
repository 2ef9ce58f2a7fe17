//! The users of docs/security.md on a master that sentinels watch, and on a cluster.

use fault_kit::{Cluster, Raw, Sentinels, secs, unique_prefix};
use redlock::{LockError, NodeErrorKind, Redlock};

use crate::security::{introductions, user};

async fn whole_life(redlock: &Redlock) -> Result<(), LockError> {
    for key in ["stock-42", "stock-43", "stock-44", "{stock}-42"] {
        let guard = redlock.lock(key).acquire().await?;
        assert!(redlock.lock(key).try_acquire().await?.is_none());
        guard.release().await?;
    }
    Ok(())
}

fn kind_of(error: &LockError) -> NodeErrorKind {
    let LockError::Unavailable { nodes, .. } = error else { panic!("{error:?}") };
    nodes[0].kind()
}

/// Takes back what a word allows. Servers before Redis 7.0 know no subcommands there.
async fn without(word: &str, raw: &Raw) -> String {
    let word = word.replacen('+', "-", 1);
    match word.split_once('|') {
        Some((command, _)) if raw.major_version().await < 7 => command.to_owned(),
        _ => word,
    }
}

#[tokio::test]
async fn the_documented_users_of_sentinels_and_their_master_are_enough() {
    let line = user("acl");
    let set = Sentinels::start_with(secs(60), &[&format!("user {line}")]).await;
    let line = user("acl-sentinel");
    for sentinel in set.sentinels() {
        let words: Vec<&str> = line.split(' ').collect();
        sentinel.raw().cmd(&[&["ACL", "SETUSER"], &words[..]].concat()).await;
    }
    let urls = || set.sentinels().iter().map(|sentinel| sentinel.url_for("watch", "secret"));
    let master = format!("redis://locks:secret@{}", Sentinels::MASTER);
    let build = || Redlock::builder().sentinel(urls(), &master).build();
    whole_life(&build().await.unwrap()).await.unwrap();
    let data = set.master().await.raw();
    for word in line.split(' ').filter(|word| word.starts_with('+')) {
        for sentinel in set.sentinels() {
            sentinel.raw().cmd(&["ACL", "SETUSER", "watch", &without(word, &data).await]).await;
        }
        let error = build().await.unwrap_err();
        assert_eq!(kind_of(&error), NodeErrorKind::NoPermission, "{word}: {error}");
        for sentinel in set.sentinels() {
            sentinel.raw().cmd(&["ACL", "SETUSER", "watch", word]).await;
        }
    }
    build().await.unwrap();
}

#[tokio::test]
async fn the_documented_user_of_a_cluster_is_enough() {
    let line = user("acl-cluster");
    let cluster = Cluster::start_with(secs(60), &[&format!("user {line}")]).await;
    let urls = || cluster.nodes().iter().map(|node| node.url_for("locks", "secret"));
    let redlock = Redlock::builder().cluster(urls()).build().await.unwrap();
    whole_life(&redlock).await.unwrap();
    for node in cluster.nodes() {
        let log = format!("{:?}", node.raw().cmd(&["ACL", "LOG"]).await);
        // What a client says about itself on connecting (CLIENT SETINFO) may be refused.
        let refused = log.matches("\"object\"").count();
        assert_eq!(refused, introductions(&log), "{log}");
        let raw = node.raw();
        raw.cmd(&["ACL", "SETUSER", "locks", &without("+cluster|slots", &raw).await]).await;
    }
    let error = Redlock::builder().cluster(urls()).build().await.unwrap_err();
    assert!(error.to_string().contains("cluster redis://127.0.0.1"), "{error}");
    let other = Redlock::builder().cluster(urls()).prefix(unique_prefix()).lazy();
    assert!(other.build().await.unwrap().lock("k").wait(secs(0)).acquire().await.is_err());
}
