//! `redlock doctor`: good, doubtful and bad servers.

use std::path::Path;

use fault_kit::scripted::Reply;
use fault_kit::{Masters, Replicated, Scripted, Server, within};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::support::{Ended, SOON, ended, run, tool};

/// The lines about one check, of all servers.
fn findings(doctor: &Ended, check: &str) -> Vec<(String, String)> {
    let lines = doctor.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let about = lines.filter(|line| line["check"] == check);
    about.map(|line| (text(&line["grade"]), text(&line["text"]))).collect()
}

fn finding(doctor: &Ended, check: &str) -> (String, String) {
    let [found] = &findings(doctor, check)[..] else { panic!("{check}: {doctor:?}") };
    found.clone()
}

/// A user of docs/security.md, as a line of an ACL file without its first word.
pub fn documented(block: &str) -> String {
    let document = include_str!("../../../docs/security.md");
    let (_, rest) = document.split_once(&format!("```{block}\nuser ")).unwrap();
    rest.lines().next().unwrap().replace("PASSWORD", "secret")
}

/// What is not good; but for the latency, which depends on how busy this machine is.
fn not_good(doctor: &Ended) -> Vec<Value> {
    let lines = doctor.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["grade"] != "good" && line["check"] != "latency").collect()
}

#[tokio::test]
async fn a_good_server() {
    let server = Server::builder().append_only("always").start().await;
    let doctor = run(&server, &["doctor"]).await;
    assert!(doctor.code < 2, "{doctor:?}");
    for word in ["latency", "version", "role", "memory", "persistence", "rights", "locking"] {
        assert!(doctor.stdout.contains(word), "{word}: {doctor:?}");
    }
    let doctor = run(&server, &["doctor", "--json"]).await;
    assert_eq!(not_good(&doctor), [Value::Null; 0], "{doctor:?}");
    let lines = doctor.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    for line in lines {
        // What concerns one server names it.
        let server = Value::from(server.url());
        let expected = if line["check"] == "locking" { Value::Null } else { server };
        assert_eq!(line["server"], expected, "{line}");
    }
    assert_eq!(server.raw().keys("*doctor*").await, [""; 0]);
}

/// The settings of a server come in another form by that protocol. Servers know it from Redis 6 on.
#[tokio::test]
async fn a_good_server_by_resp3() {
    let server = Server::builder().append_only("always").start().await;
    if server.raw().major_version().await < 6 {
        return;
    }
    let url = format!("{}?protocol=resp3", server.url());
    let doctor = ended(tool(&url, &["doctor", "--json"]).spawn().unwrap()).await;
    assert_eq!(not_good(&doctor), [Value::Null; 0], "{doctor:?}");
}

/// INFO names the program of the server.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_server_whose_files_have_names_of_any_bytes() {
    use std::os::unix::ffi::OsStringExt;

    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join(std::ffi::OsString::from_vec(b"redis-\xff".to_vec()));
    let real = format!("/proc/{}/exe", Server::shared().await.pid());
    std::os::unix::fs::symlink(std::fs::read_link(real).unwrap(), &program).unwrap();
    let server = Server::builder().append_only("always").program(program).start().await;
    let doctor = run(&server, &["doctor", "--json"]).await;
    assert_eq!(not_good(&doctor), [Value::Null; 0], "{doctor:?}");
    let listed = run(&server, &["ls"]).await;
    assert_eq!(listed.code, 0, "{listed:?}");
}

#[tokio::test]
async fn a_server_that_evicts_and_forgets() {
    let server = Server::builder().maxmemory_policy("allkeys-lru").config("maxmemory 100mb");
    // Without an append-only file it says nothing.
    let server = server.config("appendfsync always").start().await;
    let doctor = run(&server, &["doctor", "--json"]).await;
    assert_eq!(doctor.code, 2, "{doctor:?}");
    let (grade, text) = finding(&doctor, "memory");
    assert!(grade == "bad" && text.contains("noeviction"), "{text}");
    let (grade, text) = finding(&doctor, "persistence");
    assert!(grade == "doubtful" && text.starts_with("no append-only file"), "{text}");
    assert_eq!(finding(&doctor, "locking").0, "good");
}

#[tokio::test]
async fn a_master_with_a_replica() {
    let servers = Replicated::start(1).await;
    servers.linked().await;
    let doctor = run(servers.master(), &["doctor", "--json"]).await;
    let (grade, text) = finding(&doctor, "role");
    assert!(grade == "doubtful" && text.starts_with("master, 1 replica: a failover"), "{text}");
    let replica = run(servers.server(1), &["doctor", "--json"]).await;
    assert_eq!(finding(&replica, "role").0, "bad");
}

/// Servers that cannot be asked one by one: neither is fit, and the way out is an option.
#[tokio::test]
async fn a_sentinel_and_one_server_of_a_cluster() {
    let sentinel = Server::builder().sentinel().start().await;
    let node = Server::builder().cluster().start().await;
    for (server, option) in [(sentinel, "`--sentinel NAME`"), (node, "`--cluster`")] {
        let doctor = run(&server, &["doctor", "--json"]).await;
        assert_eq!(doctor.code, 2, "{doctor:?}");
        let (grade, text) = finding(&doctor, "mode");
        assert!(grade == "bad" && text.contains(option), "{text}");
        assert!(findings(&doctor, "role").is_empty(), "{doctor:?}");
        let (grade, text) = finding(&doctor, "locking");
        assert!(grade == "bad" && text.contains(&option[..option.len() - 1][..10]), "{text}");
        // A list of a part of the locks would look whole.
        for args in [&["run", "k", "true"][..], &["ls"]] {
            let refused = run(&server, args).await;
            assert_eq!(refused.code, 69, "{refused:?}");
            let is_told = ["this is a sentinel", "belongs to a Redis Cluster"];
            assert!(is_told.iter().any(|told| refused.stderr.contains(told)), "{refused:?}");
            assert!(refused.stderr.contains("`--"), "{refused:?}");
        }
    }
}

#[tokio::test]
async fn a_server_that_is_away() {
    let url = "redis://:s3cret@127.0.0.1:1";
    let doctor = ended(tool(url, &["doctor", "--json"]).spawn().unwrap()).await;
    assert_eq!(doctor.code, 2, "{doctor:?}");
    assert!(finding(&doctor, "reachable").1.contains("refused"), "{doctor:?}");
    assert!(findings(&doctor, "rights").is_empty(), "nobody has looked at them: {doctor:?}");
    assert!(!format!("{doctor:?}").contains("s3cret"));
    let cluster = ended(tool(url, &["--cluster", "doctor", "--json"]).spawn().unwrap()).await;
    assert_eq!((cluster.code, finding(&cluster, "reachable").0.as_str()), (2, "bad"));
}

#[tokio::test]
async fn a_server_that_may_forget_its_last_second() {
    let server = Server::builder().append_only("everysec").start().await;
    let doctor = run(&server, &["doctor", "--json"]).await;
    assert_eq!(doctor.code, 1, "{doctor:?}");
    let (grade, text) = finding(&doctor, "persistence");
    assert!(grade == "doubtful" && text.starts_with("appendfsync everysec"), "{text}");
}

/// What is known is told before a silent server is given up.
#[tokio::test]
async fn each_finding_is_told_at_once() {
    let masters = Masters::start(3).await;
    masters[1].freeze();
    let mut doctor = tool(&masters.urls().join(","), &["doctor"]).spawn().unwrap();
    let mut lines = BufReader::new(doctor.stdout.take().unwrap()).lines();
    let mut next = async || within(SOON, lines.next_line()).await.unwrap();
    assert_eq!(next().await, Some(masters[0].url()));
    masters[1].thaw();
    let mut told = String::new();
    while let Some(line) = next().await {
        told += &line;
    }
    assert!(told.contains("3 of 3 answer"), "{told}");
    assert!(ended(doctor).await.code < 2, "{told}");
}

#[tokio::test]
async fn a_user_without_rights() {
    let lock =
        "~lock:* ~{lock:*}:fence -@all +evalsha +eval +get +mget +set +del +pexpire +pttl +time";
    let server = Server::builder()
        .acl(&format!("queueless on >secret {lock} +info"))
        .acl("reader on >secret ~* -@all +get +info +time")
        .acl(&documented("acl").replacen("locks", "timeless", 1).replace(" +time", ""))
        .acl(&documented("acl").replacen("locks", "deaf", 1).replace(" +subscribe", ""))
        .acl(&documented("acl"))
        .acl(&documented("acl-kinds").replacen("locks", "kinds", 1))
        .start()
        .await;
    let doctor = async |user: &str| {
        let url = server.url_for(user, "secret");
        ended(tool(&url, &["doctor", "--json"]).spawn().unwrap()).await
    };
    let queueless = doctor("queueless").await;
    let (grade, text) = finding(&queueless, "rights");
    assert!(grade == "doubtful" && text.contains("+rpush"), "{queueless:?}");
    assert_eq!(finding(&queueless, "locking").0, "good");
    let deaf = doctor("deaf").await;
    let (grade, text) = finding(&deaf, "rights");
    assert!(grade == "doubtful" && text.ends_with("grant +subscribe and &redlock:*"), "{deaf:?}");
    for (user, lacks_kinds) in [("locks", true), ("kinds", false)] {
        let doctor = doctor(user).await;
        let (grade, text) = finding(&doctor, "rights");
        assert_eq!((grade.as_str(), text.contains("+zadd")), ("good", lacks_kinds), "{text}");
    }
    let timeless = doctor("timeless").await;
    let (grade, text) = finding(&timeless, "clock");
    assert!(grade == "doubtful" && text.ends_with("grant +time"), "{timeless:?}");
    assert!(findings(&timeless, "reachable").is_empty(), "it answers: {timeless:?}");
    assert_eq!(finding(&timeless, "memory").0, "good", "{timeless:?}");
    let reader = doctor("reader").await;
    assert_eq!(reader.code, 2);
    let (grade, text) = findings(&reader, "rights").remove(0);
    assert!(grade == "bad" && text.contains("+evalsha +eval ") && text.contains("+set"), "{text}");
}

/// What can be found without it is found.
#[tokio::test]
async fn a_user_without_info() {
    let server = Server::builder().acl(&documented("acl").replace(" +info", "")).start().await;
    let url = server.url_for("locks", "secret");
    let doctor = ended(tool(&url, &["doctor", "--json"]).spawn().unwrap()).await;
    let (grade, text) = finding(&doctor, "info");
    assert!(grade == "doubtful" && text.ends_with("grant +info"), "{text}");
    assert_eq!(finding(&doctor, "rights").0, "good", "{doctor:?}");
}

/// The commands that are tried leave nothing behind, whichever of them is refused.
#[tokio::test]
async fn a_user_who_may_add_and_not_remove() {
    let rights = "~* &* +@all -pexpire -lrem -lpop -zrem -zremrangebyscore";
    let server = Server::builder().acl(&format!("clumsy on >secret {rights}")).start().await;
    let url = server.url_for("clumsy", "secret");
    let doctor = ended(tool(&url, &["doctor", "--json"]).spawn().unwrap()).await;
    assert_eq!(findings(&doctor, "rights")[0].0, "bad", "{doctor:?}");
    assert_eq!(server.raw().keys("*doctor*").await, [""; 0]);
}

/// As where the tool is ended before it can delete anything.
#[tokio::test]
async fn what_is_not_deleted_ends_by_itself() {
    let rights = "~* &* +@all -pexpire -lrem -lpop -zrem -zremrangebyscore -del";
    let server = Server::builder().acl(&format!("clumsy on >secret {rights}")).start().await;
    let url = server.url_for("clumsy", "secret");
    let doctor = ended(tool(&url, &["doctor", "--json"]).spawn().unwrap()).await;
    assert_eq!(findings(&doctor, "rights")[0].0, "bad", "{doctor:?}");
    let raw = server.raw();
    for key in raw.keys("*doctor*").await {
        assert_ne!(raw.int(&["PTTL", &key]).await, -1, "{key}");
    }
}

/// Loads the scripts of the exclusive lock, as docs/security.md says.
async fn load_scripts(server: &Server) {
    let folder = "../redlock-runtime/src/backend/redis/commands/";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let text = |name: &str| std::fs::read_to_string(path.join(format!("{name}.lua"))).unwrap();
    let loads = |names: &[&str]| names.iter().map(|name| text(name)).collect::<String>();
    let (hand_over, holders) = ("exclusive/hand_over", "shared/holders");
    let name = |name: &str| format!("exclusive/{name}");
    let mut scripts = Vec::new();
    for script in ["acquire", "acquire_all", "batch", "raise", "renew", "retain", "release_hint"] {
        scripts.push(text(&name(script)));
    }
    for script in ["enqueue", "rotate", "nudge"] {
        scripts.push(loads(&[hand_over, holders, &name(script)]));
    }
    for script in ["release", "release_all"] {
        let quick = name(&format!("quick_{script}"));
        scripts.push(loads(&[&quick, hand_over, holders, &name(script)]));
    }
    for script in scripts {
        server.raw().cmd(&["SCRIPT", "LOAD", &script]).await;
    }
}

/// By digest only: a user who may send no script of its own.
#[tokio::test]
async fn a_user_of_the_scripts_that_are_loaded() {
    let strict = documented("acl-strict");
    let without = |user: &str, digest: &str| {
        let all = strict.replacen("locks", user, 1);
        assert!(all.contains(digest), "{all}");
        all.replace(&format!(" +evalsha|{digest}"), "")
    };
    let (acquire, release_all) =
        ("5b86c07c789b1b81811d4a886333569b9ff318d3", "a75f7b2caa6e5f25a7a25c140a2f382172eea5ed");
    let server = Server::builder()
        .acl(&strict)
        .acl(&without("lockless", acquire))
        .acl(&without("singly", release_all))
        .start()
        .await;
    let doctor = async |user: &str| {
        let url = server.url_for(user, "secret");
        ended(tool(&url, &["doctor", "--json"]).spawn().unwrap()).await
    };
    let (grade, text) = finding(&doctor("locks").await, "rights");
    assert!(grade == "bad" && text.contains("load the scripts, or grant +eval"), "{text}");
    load_scripts(&server).await;
    let (grade, text) = finding(&doctor("locks").await, "rights");
    assert_eq!(grade, "good", "{text}");
    let kinds = "read locks and permits would need +evalsha|c885c738023f52af7e63927249437df0a35c5a";
    assert!(text.contains(kinds) && text.contains("`release` would need +eval"), "{text}");
    let doctor_of_locks = doctor("locks").await;
    assert_eq!(finding(&doctor_of_locks, "locking").0, "good");
    assert!(doctor_of_locks.code < 2, "{doctor_of_locks:?}");
    let lockless = doctor("lockless").await;
    let (grade, text) = finding(&lockless, "rights");
    let missing = format!("the user may not lock; grant +evalsha|{acquire} (");
    assert!(grade == "bad" && text.starts_with(&missing), "{text}");
    assert_eq!(finding(&lockless, "locking").0, "bad");
    let (grade, text) = finding(&doctor("singly").await, "rights");
    let missing = format!("grant +evalsha|{release_all}");
    assert!(grade == "doubtful" && text.ends_with(&missing), "{text}");
}

/// Here those of the other kinds are not loaded.
#[tokio::test]
async fn a_user_who_may_run_what_is_loaded() {
    let user = documented("acl").replace(" +eval ", " ");
    let server = Server::builder().acl(&user).start().await;
    load_scripts(&server).await;
    let url = server.url_for("locks", "secret");
    let doctor = ended(tool(&url, &["doctor", "--json"]).spawn().unwrap()).await;
    let (grade, text) = finding(&doctor, "rights");
    let kinds = "read locks and permits would need +eval ";
    assert!(grade == "good" && text.contains(kinds), "{text}");
}

#[tokio::test]
async fn independent_masters() {
    let masters = Masters::start(3).await;
    let three = masters.urls().join(",");
    let doctor = async |urls: &str| ended(tool(urls, &["doctor", "--json"]).spawn().unwrap()).await;
    let good = doctor(&three).await;
    assert_eq!(not_good(&good), [Value::Null; 0], "{good:?}");
    assert!(finding(&good, "majority").1.contains("3 of 3"), "{good:?}");
    let twice = format!("{three},{}", masters[0].url().replace("127.0.0.1", "localhost"));
    let twice = doctor(&twice).await;
    assert_eq!(finding(&twice, "independent").0, "bad", "{twice:?}");
    masters[2].restart_empty().await;
    let restarted = doctor(&three).await;
    let (grade, text) = finding(&restarted, "vote");
    assert!(grade == "doubtful" && text.contains("no vote for another"), "{restarted:?}");
    assert_eq!(finding(&restarted, "locking").0, "good", "{restarted:?}");
    // What only a program can set is no advice here.
    masters[1].restart_empty().await;
    let refused = ended(tool(&three, &["run", "-n", "k", "true"]).spawn().unwrap()).await;
    assert!(refused.code == 69 && refused.stderr.contains("votes again by itself"), "{refused:?}");
    for said in [text, refused.stderr] {
        assert!(!said.contains("restart_guard"), "{said}");
    }
    masters[0].kill9();
    let doubtful = doctor(&three).await;
    assert_eq!(finding(&doubtful, "majority").0, "doubtful", "{doubtful:?}");
    masters[1].kill9();
    assert_eq!(finding(&doctor(&three).await, "majority").0, "bad");
}

/// It goes on without its disk until it is restarted.
#[tokio::test]
async fn a_server_that_cannot_save() {
    let reply = |wire| Reply { name: "INFO", wire, closes: false };
    for info in [
        reply("$48\r\nredis_version:7.2.0\r\naof_last_write_status:err\r\n\r\n"),
        reply("$49\r\nredis_version:7.2.0\r\nrdb_last_bgsave_status:err\r\n\r\n"),
    ] {
        let server = Scripted::start(Server::shared().await);
        server.answer_always(&["INFO"], info);
        let doctor = ended(tool(&server.url(), &["doctor", "--json"]).spawn().unwrap()).await;
        let (grade, text) = finding(&doctor, "persistence");
        assert!(grade == "bad" && text.contains("could not save"), "{doctor:?}");
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_clock_that_is_off() {
    let server = Server::builder().with_clock().start().await;
    for (seconds, side) in [(11_000, "ahead of"), (-22_000, "behind")] {
        server.shift_clock(seconds);
        let doctor = run(&server, &["doctor", "--json"]).await;
        let (grade, text) = finding(&doctor, "clock");
        let is_told = text.starts_with("3 h ") && text.contains(&format!(" {side} this machine's"));
        assert!(grade == "doubtful" && is_told, "{text}");
    }
}
