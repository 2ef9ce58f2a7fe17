//! Several servers: independent masters, a cluster, sentinels.

use std::time::Duration;

use fault_kit::proxy::{Then, command};
use fault_kit::{Cluster, Masters, Proxy, Sentinels, Server, eventually, ms, secs, within};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use crate::operators::{json, next_event};
use crate::pace::Pace;
use crate::support::{Ended, Marks, SOON, ended, start_at, tool};

const HOLD: &str = "echo $REDLOCK_OWNER >first; until [ -e go ]; do sleep 0.02; done";
/// A master that stands still for that long is given up.
const NO_FAILOVER: Duration = secs(30);
/// A user who may not hear that a lock is free.
const DEAF: &str = "user deaf on >secret ~* &* +@all -subscribe";
/// A user who may not follow a key to where its slot is being moved.
const STILL: &str = "user still on >secret ~* &* +@all -asking";
/// A user whose connections are made anew whenever the slots are asked for.
const MUTE: &str = "user mute on >secret ~* &* +@all -ping";

async fn output(mut command: Command) -> Ended {
    ended(command.spawn().unwrap()).await
}

#[tokio::test]
async fn a_majority_of_masters_makes_the_holder() {
    let masters = Masters::start(3).await;
    let (urls, marks) = (masters.urls().join(","), Marks::new());
    let holder = start_at(&urls, &marks, &["-k", "k", "sh", "-c", HOLD]);
    let owner = marks.there("first").await;
    masters[2].kill9();
    let shown = output(tool(&urls, &["show", "k", "--json"])).await;
    assert_eq!(shown.code, 0, "{shown:?}");
    let lock: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(lock["owner"], owner.as_str());
    assert_eq!(lock["servers"].as_array().unwrap().len(), 3);
    assert!(lock["servers"][2]["error"].as_str().unwrap().contains("refused"), "{lock}");
    assert!(shown.stderr.contains("refused"), "{shown:?}");
    let shown = output(tool(&urls, &["show", "k"])).await;
    assert!(shown.stderr.contains("refused"), "{shown:?}");
    let text = shown.stdout;
    assert!(text.contains("2 of 3, a majority") && text.contains("cannot be asked"), "{text}");
    let listed = output(tool(&urls, &["ls"])).await;
    assert!(listed.stdout.contains("2 of 3"), "{listed:?}");
    assert!(listed.stderr.contains("refused"), "{listed:?}");
    masters[1].kill9();
    assert_eq!(output(tool(&urls, &["show", "k"])).await.code, 69, "nobody knows");
    masters[1].start_again().await;
    let shown = output(tool(&urls, &["show", "k"])).await;
    assert_eq!(shown.code, 69, "the one that is down may make it a majority: {shown:?}");
    let listed = output(tool(&urls, &["ls", "--json"])).await;
    assert!(listed.stdout.contains("\"is_held\":null"), "{listed:?}");
    masters[2].start_again().await;
    // What one server has left over is no lock.
    let shown = output(tool(&urls, &["show", "k", "--json"])).await;
    assert_eq!(shown.code, 1, "{shown:?}");
    marks.make("go");
    ended(holder).await;
}

/// It does not see less of a lock that comes and goes meanwhile.
#[tokio::test]
async fn watch_waits_for_no_silent_minority() {
    let masters = Masters::start(3).await;
    let (urls, marks) = (masters.urls().join(","), Marks::new());
    let args = ["watch", "k", "--json", "--interval", "20ms"];
    let mut watch = tool(&urls, &args).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut stderr = BufReader::new(watch.stderr.take().unwrap()).lines();
    // Of what is said, what is about the one server.
    let mut said = async || loop {
        let line = within(SOON, stderr.next_line()).await.unwrap().unwrap();
        if line.contains(&masters[1].url()) {
            return line;
        }
    };
    assert_eq!(next_event(&mut lines).await.0, "free");
    masters[1].freeze();
    let silence = said().await;
    assert!(silence.contains("no reply in time"), "{silence}");
    // So many looks would not come, were each to wait until the server is given up.
    let rounds = async {
        for n in 0..5 {
            let script = HOLD.replace("first", &format!("on{n}")).replace("go", &format!("go{n}"));
            let holder = start_at(&urls, &marks, &["-k", "k", "sh", "-c", &script]);
            let owner = Value::from(marks.there(&format!("on{n}")).await);
            assert_eq!(next_event(&mut lines).await, ("taken".to_owned(), owner.clone()));
            marks.make(&format!("go{n}"));
            assert_eq!(next_event(&mut lines).await, ("released".to_owned(), owner));
            assert_eq!(ended(holder).await.code, 0);
        }
    };
    within(SOON, rounds).await;
    masters[1].thaw();
    let back = said().await;
    assert!(back.contains("answers again, after"), "it is silent once: {back}");
    watch.kill().await.unwrap();
}

/// What the others have said grows old while it is waited for.
#[tokio::test]
async fn no_lease_is_longer_for_a_silent_minority() {
    const LONG: Duration = secs(60);
    // As long as a silent server is waited for.
    const SHORT: Duration = secs(1);
    let (masters, pace) = (Masters::start(3).await, Pace::watch());
    let urls = masters.urls().join(",");
    masters[1].freeze();
    let seen = async |args: &[&str], lease: Duration| {
        for master in [&masters[0], &masters[2]] {
            let millis = lease.as_millis().to_string();
            master.raw().cmd(&["SET", "lock:k", "web-3:x", "PX", &millis]).await;
        }
        output(tool(&urls, args)).await
    };
    for args in [["show", "k", "--json"], ["ls", "k", "--json"]] {
        let told = seen(&args, LONG).await;
        let lock = json(&told.stdout);
        assert_eq!((told.code, &lock["is_held"]), (0, &Value::Bool(true)), "{told:?}");
        assert!(told.stderr.contains("no reply in time"), "{told:?}");
        let left = ms(lock["left_ms"].as_u64().unwrap());
        assert!(left + SHORT <= LONG, "{told:?}");
        let is_soon = left + secs(4) + pace.allowance() > LONG;
        assert!(is_soon, "after five seconds it would be given up: {told:?}");
    }
    for (args, code, free) in [
        (&["show", "k"][..], 1, "nobody has this lock"),
        (&["release", "--force", "-y", "k"], 1, "lock k is free"),
    ] {
        let told = seen(args, SHORT).await;
        assert!(told.code == code && told.stdout.contains(free), "{told:?}");
    }
    let told = seen(&["ls"], SHORT).await;
    assert_eq!((told.code, told.stdout.as_str()), (0, ""), "{told:?}");
    // Somebody holds it, and renews it meanwhile.
    let renewed = async || {
        loop {
            for master in [&masters[0], &masters[2]] {
                master.raw().cmd(&["SET", "lock:k", "web-3:x", "PX", "1000"]).await;
            }
            tokio::time::sleep(ms(50)).await;
        }
    };
    for args in [&["show", "k"][..], &["ls"]] {
        let told = tokio::select! {
            told = output(tool(&urls, args)) => told,
            () = renewed() => unreachable!("it has no end"),
        };
        assert!(told.code == 0 && told.stdout.contains("web-3"), "{told:?}");
    }
}

#[tokio::test]
async fn a_lock_on_masters_is_taken_away_on_all() {
    let masters = Masters::start(3).await;
    let (urls, marks) = (masters.urls().join(","), Marks::new());
    let holder = start_at(&urls, &marks, &["--expire", "12s", "-k", "k", "sh", "-c", HOLD]);
    marks.there("first").await;
    let released = output(tool(&urls, &["release", "--force", "-y", "k"])).await;
    assert_eq!(released.code, 0, "{released:?}");
    for master in masters.iter() {
        assert_eq!(master.raw().get("lock:k").await, None);
    }
    assert_eq!(ended(holder).await.code, 76);
}

#[tokio::test]
async fn a_lock_that_a_majority_keeps_is_not_told_free() {
    let masters = Masters::start(3).await;
    let (urls, marks) = (masters.urls().join(","), Marks::new());
    let holder = start_at(&urls, &marks, &["-k", "k", "sh", "-c", HOLD]);
    marks.there("first").await;
    for master in &masters[1..] {
        master.raw().cmd(&["ACL", "SETUSER", "default", "-eval"]).await;
    }
    let released = output(tool(&urls, &["release", "--force", "-y", "k"])).await;
    assert_eq!(released.code, 69, "{released:?}");
    assert!(released.stderr.contains("may be held still: 2 of 3"), "{released:?}");
    assert!(!released.stdout.contains("free"), "{released:?}");
    marks.make("go");
    ended(holder).await;
}

#[tokio::test]
async fn a_cluster() {
    let cluster = Cluster::start_with(NO_FAILOVER, &[DEAF, STILL, MUTE]).await;
    let urls = cluster.urls().join(",");
    let on_cluster = |args: &[&str]| {
        let mut command = tool(&urls, args);
        command.env("REDLOCK_CLUSTER", "1");
        command
    };
    let marks = Marks::new();
    let mut holders = Vec::new();
    for key in ["a", "b", "c", "d", "e", "f"] {
        let script = format!("echo on >{key}; until [ -e go ]; do sleep 0.02; done");
        let mut command = on_cluster(&["run", "-k", key, "sh", "-c", &script]);
        holders.push(command.current_dir(marks.path()).spawn().unwrap());
        marks.there(key).await;
    }
    let listed = output(on_cluster(&["ls", "--json"])).await;
    assert_eq!(listed.stdout.lines().count(), 6, "{listed:?}");
    let shown = output(on_cluster(&["show", "a"])).await;
    assert_eq!(shown.code, 0, "{shown:?}");
    let doctor = output(on_cluster(&["doctor"])).await;
    assert!(doctor.code < 2 && !doctor.stdout.contains("+subscribe"), "{doctor:?}");
    let doctor_of = async |user: &str| {
        let mut doctor = on_cluster(&["doctor"]);
        doctor.env("REDLOCK_URLS", urls.replace("redis://", &format!("redis://{user}:secret@")));
        output(doctor).await
    };
    let still = doctor_of("still").await;
    let needed = "is being moved is not found; grant +asking";
    assert!(still.code == 1 && still.stdout.matches(needed).count() == 3, "{still:?}");
    let mute = doctor_of("mute").await;
    let needed = "less to do with +ping";
    assert!(mute.code == 1 && mute.stdout.matches(needed).count() == 3, "{mute:?}");
    let deaf = doctor_of("deaf").await;
    assert!(deaf.code == 1 && deaf.stdout.contains("grant +subscribe"), "{deaf:?}");
    assert!(deaf.stdout.contains("a failover may forget"), "{deaf:?}");
    assert!(!deaf.stdout.contains("with one server"), "{deaf:?}");
    let released = output(on_cluster(&["release", "--force", "-y", "a"])).await;
    assert_eq!(released.code, 0, "{released:?}");
    assert_eq!(output(on_cluster(&["show", "a"])).await.code, 1);
    marks.make("go");
    for holder in holders {
        ended(holder).await;
    }
}

/// What is found of each master, and of the cluster as a whole.
#[tokio::test]
async fn a_cluster_of_which_a_part_is_unfit() {
    let cluster = Cluster::start_with(NO_FAILOVER, &["cluster-require-full-coverage no"]).await;
    for node in cluster.nodes() {
        node.raw().cmd(&["CLUSTER", "DELSLOTS", "0"]).await;
    }
    let masters = cluster.masters().await;
    masters[1].raw().cmd(&["ACL", "SETUSER", "default", "-subscribe", "-llen"]).await;
    let urls = cluster.urls().join(",");
    let doctor = output(tool(&urls, &["--cluster", "doctor", "--json"])).await;
    assert_eq!(doctor.code, 2, "{doctor:?}");
    let lines: Vec<Value> = doctor.stdout.lines().map(json).collect();
    let rights: Vec<_> = lines.iter().filter(|line| line["check"] == "rights").collect();
    assert_eq!(rights.len(), 3, "{doctor:?}");
    for line in rights {
        let is_deaf = line["server"] == masters[1].url().as_str();
        assert_eq!(line["grade"], if is_deaf { "doubtful" } else { "good" }, "{line}");
        let text = line["text"].as_str().unwrap();
        assert_eq!(text.ends_with("grant +llen +subscribe and &redlock:*"), is_deaf, "{line}");
    }
    let slots = lines.iter().find(|line| line["check"] == "slots").unwrap();
    let said = slots["text"].as_str().unwrap();
    assert!(slots["grade"] == "bad" && said.contains("no master has the slots 0 to 0"), "{slots}");
    assert_eq!(slots["server"], Value::Null);
    assert!(!doctor.stdout.contains("with one server"), "{doctor:?}");
}

/// Whoever may use a master may do so where a slot has no master.
#[tokio::test]
async fn the_rights_in_a_cluster_that_serves_few_slots() {
    let cluster = Cluster::start_with(NO_FAILOVER, &["cluster-require-full-coverage no"]).await;
    let slots: Vec<String> = (0..16_384)
        .filter(|slot| ![0, 8_000, 16_383].contains(slot))
        .map(|slot| slot.to_string())
        .collect();
    let words =
        [&["CLUSTER", "DELSLOTS"][..], &slots.iter().map(String::as_str).collect::<Vec<_>>()];
    for node in cluster.nodes() {
        node.raw().cmd(&words.concat()).await;
    }
    let urls = cluster.urls().join(",");
    let doctor = output(tool(&urls, &["--cluster", "doctor", "--json"])).await;
    let rights = doctor.stdout.lines().map(json).filter(|line| line["check"] == "rights");
    let grades: Vec<_> = rights.map(|line| line["grade"].clone()).collect();
    assert_eq!(grades, ["good"; 3], "{doctor:?}");
}

/// Who comes while a lock is looked at makes no lease of another one end: the questions are sent
/// together.
#[tokio::test]
async fn a_lock_of_a_cluster_is_seen_at_one_moment() {
    let (cluster, proxies) = Cluster::start_behind_proxies(NO_FAILOVER, &[]).await;
    cluster.raw().cmd(&["SET", "lock:k", "<readers>", "PX", "600000"]).await;
    for proxy in &proxies {
        proxy.always(command(&["PTTL"]), Then::LoseReply);
    }
    let urls: Vec<String> = proxies.iter().map(Proxy::url).collect();
    let mut show = tool(&urls.join(","), &["--cluster", "show", "k"]).spawn().unwrap();
    let members_asked = || async { proxies.iter().any(|proxy| proxy.count("ZRANGE") > 0) };
    eventually(SOON, members_asked).await;
    show.kill().await.unwrap();
}

#[tokio::test]
async fn all_servers_of_a_cluster_that_do_not_answer_are_told() {
    let server = Server::shared().await;
    let refusing = server.url_for("stranger", "wrong");
    let urls = format!("{refusing},redis://127.0.0.1:1");
    for args in [["--cluster", "ls"], ["--cluster", "doctor"]] {
        let told = output(tool(&urls, &args)).await;
        let text = format!("{}{}", told.stdout, told.stderr);
        assert!(text.contains("127.0.0.1:1: Connection refused"), "{told:?}");
        assert!(text.contains(&server.url()) && text.contains("refused this user"), "{told:?}");
    }
}

/// A master answers what has left it with the address of another one, which does not serve it yet.
#[tokio::test]
async fn locks_of_a_slot_that_is_being_moved() {
    let cluster = Cluster::start_with(NO_FAILOVER, &[]).await;
    let from = cluster.master_of("lock:k").await;
    let masters = cluster.masters().await;
    let to = masters.iter().find(|master| master.port() != from.port()).unwrap();
    let slot = cluster.slot_of("lock:k").await.to_string();
    let (from_id, to_id) = (cluster.id_of(from).await, cluster.id_of(to).await);
    let lease_end = "99999999999999999";
    let (lock, holders, port) = ("lock:k", "{lock:k}:holders", to.port().to_string());
    from.raw().cmd(&["SET", lock, "<readers>", "PX", "600000"]).await;
    from.raw().cmd(&["ZADD", holders, lease_end, "reader-a"]).await;
    to.raw().cmd(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from_id]).await;
    from.raw().cmd(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to_id]).await;
    let urls = cluster.urls().join(",");
    for moved in [None, Some(holders), Some(lock)] {
        if let Some(key) = moved {
            from.raw().cmd(&["MIGRATE", "127.0.0.1", &port, key, "0", "5000"]).await;
        }
        for args in [["--cluster", "ls", "--json"], ["--cluster", "show", "k"]] {
            let told = output(tool(&urls, &args)).await;
            assert_eq!(told.code, 0, "{moved:?}: {told:?}");
            assert!(told.stdout.contains("reader-a"), "{moved:?}: {told:?}");
        }
        let listed = output(tool(&urls, &["--cluster", "ls"])).await;
        assert_eq!(listed.stdout.lines().count(), 2, "{moved:?}: {listed:?}");
    }
}

/// A slot that no server has takes the whole cluster down.
#[tokio::test]
async fn a_cluster_that_is_down() {
    let cluster = Cluster::start_with(NO_FAILOVER, &[]).await;
    for master in cluster.masters().await {
        master.raw().cmd(&["CLUSTER", "DELSLOTS", "0"]).await;
    }
    let urls = cluster.urls().join(",");
    let doctor = output(tool(&urls, &["--cluster", "doctor", "--json"])).await;
    assert_eq!(doctor.code, 2, "{doctor:?}");
    for check in ["rights", "locking"] {
        let mut lines = doctor.stdout.lines().map(json);
        let line = lines.rfind(|line| line["check"] == check).unwrap();
        assert_eq!(line["grade"], "bad", "{line}");
        assert!(line["text"].as_str().unwrap().contains("CLUSTERDOWN"), "{line}");
    }
    cluster.master_of("lock:k").await.raw().try_cmd(&["SET", "lock:k", "x"]).await.unwrap_err();
    let shown = output(tool(&urls, &["--cluster", "show", "k"])).await;
    assert!(shown.code == 69 && shown.stderr.contains("`CLUSTER NODES`"), "{shown:?}");
    assert!(!shown.stderr.contains("`--cluster`"), "it was given: {shown:?}");
}

#[tokio::test]
async fn a_master_that_sentinels_watch() {
    let sentinels = Sentinels::start_with(NO_FAILOVER, &[DEAF]).await;
    let urls = sentinels.urls().join(",");
    let name = ["--sentinel", "mymaster"];
    let marks = Marks::new();
    let args = [&name[..], &["run", "-k", "k", "sh", "-c", HOLD]].concat();
    let holder = tool(&urls, &args).current_dir(marks.path()).spawn().unwrap();
    let owner = marks.there("first").await;
    let shown = output(tool(&urls, &[&name[..], &["show", "k"]].concat())).await;
    assert!(shown.stdout.contains(&owner), "{shown:?}");
    let listed = output(tool(&urls, &[&name[..], &["ls"]].concat())).await;
    assert_eq!(listed.stdout.lines().count(), 2, "{listed:?}");
    // The master takes any password of this user.
    let mut with_login = tool(&urls, &["show", "k"]);
    with_login.env("REDLOCK_SENTINEL", "redis://default:s3cret@mymaster");
    let shown = output(with_login).await;
    assert!(shown.code == 0 && shown.stdout.contains(&owner), "{shown:?}");
    let mut deaf = tool(&urls, &["doctor"]);
    deaf.env("REDLOCK_SENTINEL", "redis://deaf:secret@mymaster");
    let deaf = output(deaf).await;
    assert!(deaf.code == 1 && deaf.stdout.contains("grant +subscribe"), "{deaf:?}");
    assert!(deaf.stdout.contains("a failover may forget"), "{deaf:?}");
    assert!(!deaf.stdout.contains("with one server"), "{deaf:?}");
    marks.make("go");
    assert_eq!(ended(holder).await.code, 0);
}
