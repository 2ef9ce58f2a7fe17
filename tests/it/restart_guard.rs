//! Servers that come back empty while leases live that they voted for.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use redlock::{LockError, LockGuard, NodeErrorKind, Redlock, Wait};

use crate::busy;
use crate::masters::on;
use crate::support::proxy::{Then, contains};
use crate::support::{
    Masters, Proxy, Replicated, Server, capture, eventually, lines_of, ms, secs, time_passes,
    unique_prefix,
};

/// The check does not need the guard: servers that lose nothing are used without one.
#[tokio::test]
async fn one_server_under_two_addresses_is_an_error_of_build_also_without_the_guard() {
    let masters = Masters::start(2).await;
    for is_guarded in [true, false] {
        let twice = [masters[0].url(), masters[1].url(), format!("{}/2", masters[0].url())];
        let builder = Redlock::builder().urls(twice).restart_guard(is_guarded);
        let error = builder.reply_timeout(secs(20)).build().await.unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, LockError::Config { .. }), "{text}");
        assert!(text.contains("/2: ") && text.contains("leads to the same server"), "{text}");
    }
}

/// Holds the lock on the first two servers only: the third one is empty and back again.
async fn hold_two(masters: &[Server], redlock: &Redlock) -> LockGuard {
    masters[2].kill9();
    let request = redlock.lock("k").expire(secs(2)).wait(secs(60));
    let guard = request.acquire().await.unwrap();
    masters[2].start_again().await;
    guard
}

/// One after another: the second server forgets, another client wants the lock. Returns in how
/// many rounds it got the lock while it was still held.
async fn rounds(count: u32, is_guarded: bool) -> u32 {
    let masters = Masters::start(3).await;
    let prefix = unique_prefix();
    let client =
        || async { on(masters.urls(), &prefix).restart_guard(is_guarded).build().await.unwrap() };
    let (holder, resident) = (client().await, client().await);
    let mut both = 0;
    for round in 0..count {
        let held = hold_two(&masters, &holder).await;
        masters[1].restart_empty().await;
        // A client that knew the server before, and one that never saw it.
        let second = if round % 2 == 0 { resident.clone() } else { client().await };
        // Without the guard, the holder may have won the second server back before it is asked.
        let wait = if is_guarded { secs(60) } else { secs(5) };
        let acquired = second.lock("k").expire(secs(2)).wait(wait).acquire().await;
        assert!(acquired.is_ok() || !is_guarded, "{acquired:?}");
        if let Ok(guard) = acquired {
            both += u32::from(held.check().is_ok());
            guard.release().await.unwrap();
        }
        drop(held);
    }
    both
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_second_holder_in_100_of_100_runs() {
    let _turn = busy::turn().await;
    // Most of it is waiting until what a server forgot is over: ten groups of servers side by side.
    let groups: Vec<_> = (0..10).map(|_| tokio::spawn(rounds(10, true))).collect();
    for group in groups {
        assert_eq!(group.await.unwrap(), 0, "two holders at once");
    }
}

#[tokio::test]
async fn without_the_guard_the_lock_has_two_holders() {
    assert!(rounds(3, false).await > 0);
}

#[tokio::test]
async fn a_server_without_a_vote_is_named_with_the_reason() {
    let masters = Masters::start(3).await;
    let redlock = on(masters.urls(), &unique_prefix()).build().await.unwrap();
    redlock.lock("k").expire(secs(30)).run(async {}).await.unwrap();
    let events = capture();
    masters[0].restart_empty().await;
    masters[1].restart_empty().await;
    let request = redlock.lock("k").expire(secs(30)).wait(ms(500));
    let error = request.acquire().await.unwrap_err();
    let LockError::Unavailable { nodes, .. } = &error else { panic!("{error}") };
    let quarantined = nodes.iter().filter(|node| node.kind() == NodeErrorKind::Quarantined);
    assert_eq!(quarantined.count(), 2, "{error}");
    assert!(error.to_string().contains("the server was restarted"), "{error}");
    assert!(error.to_string().contains("no vote for another"), "{error}");
    let warned = events.warnings_about(&masters[0].addr().to_string());
    // At every attempt it has none; that is told once.
    let told = warned.iter().filter(|event| event.message.contains("no vote for now"));
    assert_eq!(told.count(), 1, "{warned:?}");
}

#[tokio::test]
async fn the_roll_is_all_that_the_guard_leaves_and_it_ends_by_itself() {
    let masters = Masters::start(3).await;
    let redlock = on(masters.urls(), "lock:").build().await.unwrap();
    let mut run_ids = Vec::new();
    for master in masters.iter() {
        run_ids.push(master.raw().info("run_id").await);
        assert_eq!(master.raw().keys("*").await, ["lock:nodes:fence"]);
        let life = master.raw().pttl("lock:nodes:fence").await.unwrap();
        // It outlives the lease that this client asks for where a call names none, also where a
        // clock is 1 % slow.
        let longest = secs(48 * 3600 + 31);
        assert!(life > secs(47 * 3600) && life <= longest, "{life:?}");
    }
    run_ids.sort();
    let roll = masters[2].raw().get("lock:nodes:fence").await.unwrap();
    assert_eq!(roll, run_ids.join(" "));
    // A server that came back empty is left the roll by the first call that meets it again, and
    // for how long it was watched.
    masters[1].restart_empty().await;
    let raw = masters[1].raw();
    let expected = format!("{roll} {}=", raw.info("run_id").await);
    eventually(secs(60), || async {
        redlock.lock("k").expire(secs(2)).wait(secs(30)).run(async {}).await.unwrap();
        raw.get("lock:nodes:fence").await.is_some_and(|found| found.starts_with(&expected))
    })
    .await;
}

/// A client with longer leases has left it. The group would look new before they are over.
#[tokio::test]
async fn a_client_with_short_leases_does_not_shorten_the_life_of_the_roll() {
    let masters = Masters::start(3).await;
    let prefix = unique_prefix();
    let roll = format!("{prefix}nodes:fence");
    let week = secs(7 * 24 * 3600);
    let patient = on(masters.urls(), &prefix).build().await.unwrap();
    patient.lock("k").expire(week).run(async {}).await.unwrap();
    let lives = async || {
        let mut lives = Vec::new();
        for master in masters.iter() {
            lives.push(master.raw().pttl(&roll).await.unwrap_or_default());
        }
        lives
    };
    let is_long = |life: &Duration| *life > week + secs(47 * 3600);
    eventually(secs(30), || async { lives().await.iter().all(is_long) }).await;
    // At first it renews the list of a server with all of its founders.
    let hasty = on(masters.urls(), &prefix).build().await.unwrap();
    assert!(lives().await.iter().all(is_long));
    // Then it writes how long it has watched a server that was restarted.
    masters[0].restart_empty().await;
    let raw = masters[0].raw();
    raw.cmd(&["SET", &roll, "-", "PX", &(week + secs(47 * 3600)).as_millis().to_string()]).await;
    eventually(secs(60), || async {
        hasty.lock("k").expire(secs(2)).wait(secs(30)).run(async {}).await.unwrap();
        raw.get(&roll).await.is_some_and(|found| found.contains('='))
    })
    .await;
    assert!(raw.pttl(&roll).await.unwrap() > week + secs(46 * 3600));
}

#[tokio::test]
async fn a_server_that_keeps_every_write_votes_at_once() {
    let masters = Masters::start_with(3, |server| server.append_only("always")).await;
    let redlock = on(masters.urls(), &unique_prefix()).build().await.unwrap();
    redlock.lock("k").expire(secs(600)).run(async {}).await.unwrap();
    for master in masters.iter() {
        master.kill9();
        master.start_again().await;
    }
    let request = redlock.lock("k").expire(secs(600)).wait(secs(30));
    request.run(async {}).await.unwrap();
}

/// The note of the client that met the restarted servers first says whose data they have kept.
#[tokio::test]
async fn servers_that_keep_every_write_vote_at_once_for_each_client_that_knew_them() {
    let masters = Masters::start_with(3, |server| server.append_only("always")).await;
    let prefix = unique_prefix();
    let [first, second] = [
        on(masters.urls(), &prefix).build().await.unwrap(),
        on(masters.urls(), &prefix).build().await.unwrap(),
    ];
    let key = format!("{prefix}nodes:fence");
    let take = |redlock: &Redlock| redlock.lock("k").expire(secs(600)).wait(secs(30)).run(async {});
    take(&first).await.unwrap();
    take(&second).await.unwrap();
    for master in masters.iter() {
        master.kill9();
        master.start_again().await;
    }
    eventually(secs(30), || async {
        take(&first).await.unwrap();
        let mut noted = 0;
        for master in masters.iter() {
            let founders = master.raw().get(&key).await;
            noted += usize::from(founders.is_some_and(|founders| founders.contains("=^")));
        }
        noted == 3
    })
    .await;
    take(&second).await.unwrap();
    let later = on(masters.urls(), &prefix).build().await.unwrap();
    take(&later).await.unwrap();
}

/// Each client lives for some milliseconds, as a job of cron does, and asks for the lock once.
#[tokio::test]
async fn clients_that_live_for_a_moment_get_the_votes_of_restarted_servers_back() {
    let masters = Masters::start(3).await;
    let prefix = unique_prefix();
    let run = || async {
        let redlock = on(masters.urls(), &prefix).build().await.unwrap();
        redlock.lock("k").expire(secs(2)).wait(Wait::Never).run(async {}).await
    };
    run().await.unwrap();
    let restarted = Instant::now();
    masters[0].restart_empty().await;
    masters[1].restart_empty().await;
    eventually(secs(30), || async {
        let outcome = run().await;
        let error = outcome.as_ref().map_or_else(ToString::to_string, |()| String::new());
        // A server that is slow to start anew may not answer a single call.
        let is_expected = ["no vote for another", "no reply within"];
        let is_expected = is_expected.iter().any(|text| error.contains(text));
        assert!(outcome.is_ok() || is_expected, "{error}");
        // What all clients see together is not enough.
        time_passes(ms(300)).await;
        outcome.is_ok()
    })
    .await;
    assert!(restarted.elapsed() > secs(2));
}

/// The replica missed the lock before it took its master's place.
#[tokio::test]
async fn a_promoted_replica_in_place_of_a_voter_makes_no_second_holder() {
    for is_guarded in [true, false] {
        let (first, last) = (Server::start().await, Server::start().await);
        let pair = Replicated::start(1).await;
        let (middle, away) = (Proxy::start(pair.master()), Proxy::start(&last));
        let prefix = unique_prefix();
        let client = |urls: [String; 3]| async {
            let builder = Redlock::builder().urls(urls).prefix(&prefix).reply_timeout(secs(20));
            builder.restart_guard(is_guarded).build().await.unwrap()
        };
        let holder = client([first.url(), middle.url(), away.url()]).await;
        let resident = client([first.url(), middle.url(), last.url()]).await;
        resident.lock("other").expire(secs(50)).run(async {}).await.unwrap();

        pair.server(1).raw().cmd(&["REPLICAOF", "NO", "ONE"]).await;
        away.drop_requests();
        let held = holder.lock("k").expire(secs(50)).acquire().await.unwrap();
        middle.lead_to(pair.server(1));
        middle.cut_all();
        let stranger = client([first.url(), middle.url(), last.url()]).await;
        for second in [&resident, &stranger] {
            let request = second.lock("k").expire(secs(50)).wait(Wait::Never);
            let got = request.acquire().await;
            assert!(got.is_err() || !is_guarded, "two holders at once: {got:?}");
            assert!(got.is_ok() || is_guarded, "{got:?}");
            held.check().unwrap();
            if let Ok(guard) = got {
                guard.release().await.unwrap();
            }
        }
    }
}

/// The address moves to another server, and the first one lives on. Only the connection for
/// renewals breaks, and meets the second server. When that one votes, no call may ask the first.
#[tokio::test]
async fn an_old_connection_to_a_server_that_another_one_replaced_gives_no_vote() {
    let (masters, successor) = (Masters::start(3).await, Server::start().await);
    let proxy = Proxy::start(&masters[0]);
    let (urls, prefix) = ([proxy.url(), masters[1].url(), masters[2].url()], unique_prefix());
    let redlock = Redlock::builder().urls(urls).prefix(&prefix).build().await.unwrap();
    let held = redlock.lock("held").expire(secs(3)).acquire().await.unwrap();
    eventually(secs(30), || async { held.renewals() > 0 }).await;
    // Both others have to vote from now on.
    masters[2].kill9();
    proxy.lead_to(&successor);
    proxy.when(contains("held"), Then::CutRequest).fired().await;
    held.lost().await;

    let request = redlock.lock("k").expire(secs(1)).wait(secs(60));
    let guard = request.acquire().await.unwrap();
    let key = format!("{prefix}k");
    assert!(masters[0].raw().get(&key).await.is_none());
    assert!(successor.raw().get(&key).await.is_some());
    guard.release().await.unwrap();
}

#[tokio::test]
async fn one_server_is_guarded_on_request() {
    let server = Server::start().await;
    let prefix = unique_prefix();
    let guarded = || Redlock::builder().url(server.url()).prefix(&prefix).restart_guard(true);
    let redlock = guarded().build().await.unwrap();
    let held = redlock.lock("k").expire(secs(2)).wait(secs(60)).acquire().await.unwrap();
    server.restart_empty().await;
    let second = guarded().build().await.unwrap();
    let busy = second.lock("k").expire(secs(2)).wait(Wait::Never).acquire().await.unwrap_err();
    assert!(busy.to_string().contains("no vote"), "{busy}");
    eventually(secs(30), || async { held.check().is_err() }).await;
    second.lock("k").expire(secs(2)).wait(secs(60)).run(async {}).await.unwrap();
}

/// Starts `to` with the log of writes that `from` has now.
async fn copy_log(from: &Server, to: &Server) {
    let directory_of = async |server: &Server| {
        let answer = server.raw().cmd(&["CONFIG", "GET", "dir"]).await;
        let [_, directory] = &lines_of(answer)[..] else { panic!("the server has a directory") };
        PathBuf::from(directory)
    };
    let (source, target) = (directory_of(from).await, directory_of(to).await);
    to.kill9();
    // From 7.0 on the log is several files in a directory.
    for place in ["", "appendonlydir"] {
        let target = target.join(place);
        for file in logs_in(&target) {
            fs::remove_file(file).unwrap();
        }
        for file in logs_in(&source.join(place)) {
            fs::copy(&file, target.join(file.file_name().unwrap())).unwrap();
        }
    }
    to.start_again().await;
}

fn logs_in(directory: &Path) -> Vec<PathBuf> {
    let is_log = |file: &PathBuf| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        file.is_file() && name.starts_with("appendonly.aof")
    };
    let files = fs::read_dir(directory).into_iter().flatten();
    files.map(|file| file.unwrap().path()).filter(is_log).collect()
}

/// The address moves to a server with the data of the first one, which lives on for a while. The
/// client that meets the second server first believes that this was a restart.
#[tokio::test]
async fn who_has_heard_both_servers_of_an_address_does_not_take_one_for_the_heir() {
    let masters = Masters::start_with(3, |server| server.append_only("always")).await;
    let successor = Server::builder().append_only("always").start().await;
    let [early, late, held] = [(); 3].map(|()| Proxy::start(&masters[0]));
    let [away, silent] = [(); 2].map(|()| Proxy::start(&masters[2]));
    let prefix = unique_prefix();
    let client = async |first: &Proxy, last: String| {
        on([first.url(), masters[1].url(), last], &prefix).build().await.unwrap()
    };
    let first = client(&early, masters[2].url()).await;
    let second = client(&late, silent.url()).await;
    let holder = client(&held, away.url()).await;
    let used = async |redlock: &Redlock, key: &str| {
        redlock.lock(key).expire(secs(60)).wait(secs(60)).run(async {}).await.unwrap();
    };
    for redlock in [&first, &second, &holder] {
        used(redlock, "warm").await;
    }
    copy_log(&masters[0], &successor).await;
    early.lead_to(&successor);
    early.cut_all();
    let list = format!("{prefix}nodes:fence");
    eventually(secs(60), || async {
        used(&first, "early").await;
        successor.raw().get(&list).await.is_some_and(|list| list.contains("=^"))
    })
    .await;
    drop(first);
    away.drop_requests();
    let held_lock = holder.lock("k").expire(secs(60)).wait(secs(60)).acquire().await.unwrap();
    // Without the third server, it is the first one that answers.
    silent.drop_requests();
    used(&second, "late").await;
    silent.pass();
    silent.cut_all();
    let back = format!("{prefix}back");
    eventually(secs(60), || async {
        let _held = second.lock("back").expire(secs(60)).wait(secs(60)).acquire().await.unwrap();
        masters[2].raw().get(&back).await.is_some()
    })
    .await;
    masters[0].kill9();
    for proxy in [&late, &held] {
        proxy.lead_to(&successor);
    }
    let request = second.lock("k").expire(secs(60)).wait(secs(2));
    let got = request.acquire().await;
    assert!(got.is_err() || held_lock.check().is_err(), "two holders at once");
}
