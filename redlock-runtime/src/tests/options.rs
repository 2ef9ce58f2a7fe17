//! Options of a client that cannot work, alone or together: refused before anything is sent.

use std::time::Duration;

use super::fake::SECOND;
use crate::client::{Redlock, RedlockBuilder};
use crate::error::LockError;

const NODES: [&str; 3] = ["redis://127.0.0.1:1", "redis://127.0.0.1:2", "redis://127.0.0.1:3"];

fn one() -> RedlockBuilder {
    Redlock::builder().url(NODES[0]).lazy()
}

fn three() -> RedlockBuilder {
    Redlock::builder().urls(NODES).lazy()
}

async fn accept(builder: RedlockBuilder) -> Redlock {
    builder.build().await.unwrap()
}

/// The error names what it is about.
async fn refuse(builder: RedlockBuilder, option: &str) {
    let error = builder.build().await.unwrap_err();
    assert!(matches!(error, LockError::Config { .. }), "{error:?}");
    assert!(error.to_string().contains(option), "{option}: {error}");
}

#[tokio::test]
async fn a_prefix_is_a_short_plain_text() {
    let longest = "x".repeat(256);
    for prefix in ["", "shop:", &longest] {
        let redlock = accept(one().prefix(prefix)).await;
        assert_eq!(redlock.prefix(), prefix);
    }
    for prefix in ["a\n", "{a", "a}", &format!("{longest}x")] {
        refuse(one().prefix(prefix), "`prefix`").await;
    }
    let huge = one().prefix("x".repeat(65_536)).build().await.unwrap_err().to_string();
    assert!(huge.len() < 600, "{} bytes are told", huge.len());
}

#[tokio::test]
async fn a_client_name_is_a_short_plain_text_too() {
    let longest = "x".repeat(256);
    for name in ["a", "web-1", &longest] {
        accept(one().client_name(name)).await;
    }
    for name in ["", "a\u{7}", &format!("{longest}x")] {
        refuse(one().client_name(name), "`client_name`").await;
    }
    // It would make a held lock look like one that nobody holds.
    accept(one().client_name("web:retained:1")).await;
    refuse(one().client_name("web:retained"), "locks that nobody holds").await;
    let redlock = Redlock::builder().memory().client_name("web-1").build().await.unwrap();
    let guard = redlock.lock("k").acquire().await.unwrap();
    assert!(guard.owner().starts_with("web-1"), "{}", guard.owner());
}

/// A quorum of one, which counts no permits either.
#[tokio::test]
async fn permits_are_for_one_master_without_the_guard() {
    for builder in [three(), one().restart_guard(true)] {
        let error = accept(builder).await.lock("k").permits(2).acquire().await.unwrap_err();
        assert!(matches!(error, LockError::Config { .. }), "{error:?}");
        assert!(error.to_string().contains("or with `restart_guard`"), "{error}");
    }
}

#[tokio::test]
async fn a_lock_has_one_kind() {
    let redlock = Redlock::builder().memory().build().await.unwrap();
    let lock = || redlock.lock("k");
    for both in [lock().read().permits(2), lock().permits(2).read(), lock().read().permits(0)] {
        let text = both.try_acquire().await.unwrap_err().to_string();
        assert!(text.contains("`read` and `permits` are two kinds of locks"), "{text}");
        assert!(text.contains("lock `k`"), "{text}");
    }
    for one in [lock().read().read(), lock().permits(1).permits(2)] {
        assert!(one.try_acquire().await.unwrap().is_some());
    }
}

#[tokio::test]
async fn a_mistake_in_the_options_of_a_call_names_the_lock() {
    let redlock = Redlock::builder().memory().build().await.unwrap();
    let nanos = Duration::from_nanos(1);
    for request in [
        redlock.lock("stock-42").expire(nanos),
        redlock.lock("stock-42").permits(0),
        redlock.lock("stock-42").read().min_hold(nanos),
        redlock.lock_all(["stock-42", "a"]).permits(2),
    ] {
        let error = request.acquire().await.map(drop).unwrap_err().to_string();
        let name = if error.contains("several") { "lock `a`: " } else { "lock `stock-42`: " };
        assert!(error.contains(name), "{error}");
    }
}

#[tokio::test]
async fn two_quorums_share_a_server() {
    refuse(Redlock::builder(), "no server").await;
    for quorum in [2, 3] {
        accept(three().quorum(quorum)).await;
    }
    for quorum in [0, 1, 4] {
        refuse(three().quorum(quorum), "`quorum`").await;
    }
    accept(one().quorum(1)).await;
    refuse(one().quorum(2), "`quorum`").await;
}

#[tokio::test]
async fn a_command_has_time_for_its_answer_and_replicas_have_less() {
    refuse(one().reply_timeout(Duration::ZERO), "`reply_timeout`").await;
    let one = || one().reply_timeout(SECOND);
    accept(one().min_replicas(1, Duration::from_millis(999))).await;
    for (needed, within) in [(0, SECOND / 2), (1, Duration::ZERO), (1, SECOND)] {
        refuse(one().min_replicas(needed, within), "`min_replicas`").await;
    }
}

#[tokio::test]
async fn memory_stands_alone() {
    refuse(one().memory(), "`memory`").await;
    refuse(Redlock::builder().memory().memory(), "`memory`").await;
    refuse(Redlock::builder().memory().min_replicas(1, SECOND / 2), "`min_replicas`").await;
}

#[cfg(feature = "cluster")]
#[tokio::test]
async fn a_cluster_stands_alone() {
    let cluster = || Redlock::builder().cluster(NODES).lazy();
    accept(cluster()).await;
    accept(cluster().restart_guard(false)).await;
    refuse(cluster().url(NODES[0]), "`cluster`").await;
    refuse(one().cluster(NODES), "`cluster`").await;
    refuse(cluster().restart_guard(true), "`restart_guard`").await;
    refuse(cluster().min_replicas(1, SECOND / 2), "`min_replicas`").await;
}

#[tokio::test]
async fn the_only_server_stands_alone() {
    accept(Redlock::builder().urls(NODES).lazy()).await;
    refuse(one().url(NODES[1]), "`.urls([..])`").await;
    refuse(Redlock::builder().urls(NODES).url(NODES[0]), "`.urls([..])`").await;
}

#[cfg(feature = "tls")]
#[tokio::test]
async fn tls_is_for_urls() {
    let tls = crate::backend::Tls::new;
    refuse(Redlock::builder().memory().tls(tls()), "`tls`").await;
    accept(Redlock::builder().url("rediss://127.0.0.1:1").tls(tls()).lazy()).await;
}

#[cfg(all(feature = "tls", feature = "sentinel", feature = "cluster"))]
#[tokio::test]
async fn tls_is_for_sentinels_and_clusters_that_are_named_by_urls() {
    let url = ["rediss://127.0.0.1:1"];
    let with_tls = || Redlock::builder().tls(crate::backend::Tls::new()).lazy();
    accept(with_tls().cluster(url)).await;
    accept(with_tls().sentinel(url, "rediss://m")).await;
    refuse(with_tls().sentinel(url, "m"), "`rediss://m`").await;
    let config = deadpool_redis::cluster::Config::from_urls(vec![url[0].to_owned()]);
    let pool = config.create_pool(None).unwrap();
    refuse(with_tls().cluster_pool(pool), "`tls` is for").await;
}

/// A sum with such a time would panic, where it is no caller's business.
#[tokio::test]
async fn a_time_beyond_all_clocks_is_refused_or_without_an_end() {
    const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
    let beyond = YEAR + Duration::from_nanos(1);
    for time in [beyond, Duration::MAX] {
        refuse(one().reply_timeout(time), "`reply_timeout`").await;
        refuse(three().longest_expire(time), "`longest_expire`").await;
        refuse(one().expire(time), "`expire`").await;
        refuse(one().min_replicas(1, time), "`min_replicas`").await;
    }
    let ended = tokio::spawn(async {
        let longest = one().reply_timeout(YEAR).longest_expire(YEAR).expire(YEAR).wait(YEAR);
        for redlock in [accept(longest.clone()).await, accept(longest.restart_guard(true)).await] {
            // Nobody listens there.
            let error = redlock.lock("k").wait(Duration::ZERO).acquire().await.unwrap_err();
            assert!(matches!(error, LockError::Unavailable { .. }), "{error}");
            redlock.shutdown(Duration::MAX).await;
        }
        let redlock = accept(Redlock::builder().memory().wait(Duration::MAX)).await;
        let guard = redlock.lock("k").wait(Duration::MAX).max_renew(u32::MAX).acquire();
        let guard = guard.await.unwrap();
        let mut second = Box::pin(redlock.lock("k").acquire());
        assert!(tokio::time::timeout(Duration::ZERO, &mut second).await.is_err());
        drop(guard);
        drop(second.await.unwrap());
        redlock.shutdown(Duration::MAX).await;
    });
    ended.await.unwrap();
}
