//! `redlock run` while all is well: exit codes, environment, streams, waiting.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::Instant;

use fault_kit::{Server, counted, eventually, full, ms, secs, time_passes, unique_prefix, within};
use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use crate::support::{Ended, Marks, SOON, ended, program, run, send, start, tool};

async fn sh(server: &Server, key: &str, script: &str) -> Ended {
    run(server, &["run", "--key", key, "--", "sh", "-c", script]).await
}

#[tokio::test]
async fn the_code_of_the_command_is_passed_through() {
    let server = Server::shared().await;
    let key = unique_prefix();
    for (script, code) in [
        ("exit 0", 0),
        ("exit 3", 3),
        ("exit 255", 255),
        ("kill -KILL $$", 137),
        ("kill -TERM $$", 143),
        ("exec >&- 2>&- <&-; sleep 0.2; exit 4", 4),
    ] {
        let ended = sh(server, &key, script).await;
        assert_eq!(ended.code, code, "{script}: {ended:?}");
        assert_eq!(ended.signal, None, "no signal was for redlock: {ended:?}");
    }
    assert_eq!(server.raw().get(&format!("lock:{key}")).await, None);
}

/// As on two machines, of which one has a clock that is behind.
#[tokio::test]
async fn a_job_that_is_done_at_once_does_not_run_again_within_its_min_hold() {
    let server = Server::shared().await;
    let key = unique_prefix();
    let job = ["run", "-n", "--min-hold", "10m", "--key", &key, "--", "true"];
    let first = run(server, &job).await;
    assert_eq!((first.code, first.stderr.as_str()), (0, ""));
    let kept = server.raw().get(&format!("lock:{key}")).await;
    let kept = kept.unwrap();
    assert!(kept.contains(":retained:"), "{kept}");
    let second = run(server, &[&job[..1], &["--client-name", "b"], &job[1..]].concat()).await;
    assert_eq!(second.code, 75);
    let whose = kept.split_once(":retained:").unwrap().0;
    let told = format!("nobody holds lock `{key}`: the `min_hold` of {whose} is not over");
    assert_eq!(second.stderr, format!("redlock: {told}\n"));
    let later = run(server, &["run", "-w", "1", &key, "true"]).await;
    assert!(later.stderr.contains("was not free within"), "{later:?}");
    assert!(later.stderr.contains(": nobody holds it, but the `min_hold` of"), "{later:?}");
    let shared = run(server, &["run", "--read", "--min-hold", "1s", &key, "true"]).await;
    assert_eq!(shared.code, 64, "{shared:?}");
}

#[tokio::test]
async fn what_cannot_be_run_has_the_codes_of_shells() {
    let server = Server::shared().await;
    let key = unique_prefix();
    let missing = run(server, &["run", &key, "no-such-program"]).await;
    assert_eq!(missing.code, 127, "{missing:?}");
    assert!(missing.stderr.contains("cannot run `no-such-program`"), "{missing:?}");
    let refused = run(server, &["run", &key, "/etc/passwd"]).await;
    assert_eq!(refused.code, 126, "{refused:?}");
}

/// The system bounds the words of a command and its variables, of which redlock adds some.
#[tokio::test]
async fn what_has_too_many_words_cannot_be_run() {
    let server = Server::shared().await;
    let (key, words) = (unique_prefix(), "w".repeat(1_000));
    let (mut fits, mut is_too_long, mut codes) = (0_usize, 16 << 20, BTreeSet::new());
    while is_too_long - fits > 1 {
        let bytes = fits.midpoint(is_too_long);
        let mut args = vec!["run", "-k", &key, "true", &words[..bytes % 1_000]];
        args.resize(args.len() + bytes / 1_000, &words);
        match tool(&server.url(), &args).spawn() {
            Ok(child) => {
                codes.insert(ended(child).await.code);
                fits = bytes;
            }
            Err(_) => is_too_long = bytes,
        }
    }
    assert_eq!(codes, BTreeSet::from([0, 126]), "{fits}");
}

#[tokio::test]
async fn the_command_finds_its_lock_in_the_environment_and_in_redis() {
    let server = Server::shared().await;
    let (marks, key) = (Marks::new(), unique_prefix());
    let script = "echo $REDLOCK_KEY; echo $REDLOCK_OWNER; echo $REDLOCK_FENCING_TOKEN; \
                  echo held >held; until [ -e go ]; do sleep 0.02; done";
    let args = ["--client-name", "nightly", "--key", &key, "--", "sh", "-c", script];
    let child = start(server, &marks, &args);
    marks.there("held").await;
    let owner = server.raw().get(&format!("lock:{key}")).await.unwrap();
    marks.make("go");
    let ended = ended(child).await;
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(lines[..2], [key.as_str(), owner.as_str()]);
    assert!(owner.starts_with("nightly:"), "{owner}");
    assert!(lines[2].parse::<u64>().unwrap() > 0);
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
}

#[tokio::test]
async fn streams_are_those_of_the_command() {
    let server = Server::shared().await;
    let mut tool = tool(&server.url(), &["run", &unique_prefix(), "sh", "-c", "cat; echo no >&2"]);
    let mut child = tool.stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"through\n").await.unwrap();
    drop(stdin);
    let ended = ended(child).await;
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("through\n", "no\n"));
}

#[tokio::test]
async fn of_twenty_at_once_one_runs() {
    let rounds = full(1, 10);
    for _ in 0..rounds {
        twenty_at_once().await;
    }
    counted(&format!("{rounds} times twenty at once: one ran, nineteen ended with 75"));
}

async fn twenty_at_once() {
    let server = Server::shared().await;
    let (marks, key) = (Marks::new(), unique_prefix());
    let script = "echo ran >>ran; until [ -e go ]; do sleep 0.05; done";
    let args = ["-n", "--key", &key, "--", "sh", "-c", script];
    let mut children: Vec<_> = (0..20).map(|_| start(server, &marks, &args)).collect();
    let mut codes = Vec::new();
    eventually(SOON * 2, || {
        children.retain_mut(|child| match child.try_wait().unwrap() {
            Some(status) => {
                codes.push(status.code().unwrap());
                false
            }
            None => true,
        });
        let left = children.len();
        async move { left == 1 }
    })
    .await;
    marks.make("go");
    assert_eq!(ended(children.pop().unwrap()).await.code, 0);
    assert_eq!(codes, [75; 19]);
    assert_eq!(marks.read("ran"), "ran");
}

#[tokio::test]
async fn a_lock_that_is_held_says_by_whom_with_the_code_that_was_asked_for() {
    let server = Server::shared().await;
    let key = unique_prefix();
    let raw = server.raw();
    assert!(raw.set_foreign_lock(&format!("lock:{key}"), "web-3:x", SOON * 10).await);
    for wait in [&["-n"][..], &["-w", "0"]] {
        let at_once = run(server, &[&["run"], wait, &[&key, "true"]].concat()).await;
        assert_eq!(at_once.code, 75);
        assert_eq!(at_once.stderr, format!("redlock: lock `{key}` is held by web-3:x\n"));
    }
    let odd = unique_prefix();
    for (value, shown) in [("", "\"\""), ("a\n\u{202e}b", "a\\n\\u{202e}b")] {
        raw.cmd(&["SET", &format!("lock:{odd}"), value]).await;
        let refused = run(server, &["run", "-n", &odd, "true"]).await;
        let told = format!("redlock: lock `{odd}` is held by {shown}; {}\n", no_end(&odd));
        assert_eq!(refused.stderr, told);
    }
    let later = run(server, &["run", "-w", "3", "-E", "9", &key, "true"]).await;
    assert_eq!(later.code, 9);
    assert!(later.stderr.contains("was not free within"), "{later:?}");
    let quiet = run(server, &["run", "-nq", &key, "true"]).await;
    assert_eq!((quiet.code, quiet.stderr.as_str()), (75, ""));
}

/// What is said of a key without an expiry, which another program has set.
fn no_end(key: &str) -> String {
    format!(
        "its key has no expiry, and does not end by itself; where nobody holds it, `redlock \
         release --force {key}` deletes it"
    )
}

#[tokio::test]
async fn a_lock_without_an_end_says_so_and_how_to_free_it() {
    let server = Server::shared().await;
    let (marks, key) = (Marks::new(), unique_prefix());
    server.raw().cmd(&["SET", &format!("lock:{key}"), "x"]).await;
    let refused = run(server, &["run", "-w", "1", &key, "true"]).await;
    assert!(refused.code == 75 && refused.stderr.contains(&no_end(&key)), "{refused:?}");
    let mut child = start(server, &marks, &["-w", "forever", "-k", &key, "true"]);
    let mut stderr = BufReader::new(child.stderr.take().unwrap()).lines();
    let said = within(SOON, stderr.next_line()).await.unwrap().unwrap();
    let told = format!("redlock: this waits without end for lock `{key}`: {}", no_end(&key));
    assert_eq!(said, told);
    let freed = run(server, &["release", "--force", &key, "--yes"]).await;
    assert_eq!(freed.code, 0, "{freed:?}");
    let ended = ended(child).await;
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
}

#[tokio::test]
async fn a_run_inside_of_a_run_that_has_the_lock_says_so() {
    let server = Server::shared().await;
    let key = unique_prefix();
    let tool = env!("CARGO_BIN_EXE_redlock");
    let inside = async |outer: &[&str], inner: &[&str]| {
        let begin = [&["run"], outer, &["-k", &key, "--", tool, "run"]].concat();
        run(server, &[&begin[..], inner, &["-k", &key, "true"]].concat()).await
    };
    let around = "the `redlock run` that runs this one";
    let refused = inside(&[], &["-w", "1"]).await;
    assert_eq!(refused.code, 75, "{refused:?}");
    assert!(refused.stderr.contains(&format!(", {around}")), "{refused:?}");
    assert!(!refused.stderr.contains("without end"), "{refused:?}");
    let refused = inside(&["--read"], &["-n"]).await;
    assert!(refused.stderr.contains(&format!("1 reader, one of them {around}")), "{refused:?}");
    for kind in [&["--read"][..], &["--permits", "2"]] {
        let both = inside(kind, &[kind, &["-w", "forever"]].concat()).await;
        assert_eq!((both.code, both.stderr.as_str()), (0, ""));
    }
    let quiet = inside(&[], &["-qn"]).await;
    assert_eq!((quiet.code, quiet.stderr.as_str()), (75, ""));
}

/// The wait itself has no end, and no error.
#[tokio::test]
async fn a_run_that_waits_for_the_run_around_it_warns() {
    let server = Server::shared().await;
    for kind in [&[][..], &["--read"], &["--permits", "2"]] {
        let (marks, key) = (Marks::new(), unique_prefix());
        let tool = env!("CARGO_BIN_EXE_redlock");
        let inner = ["-k", &key, "--", tool, "run", "-w", "forever", "-k", &key, "true"];
        let mut child = start(server, &marks, &[kind, &inner].concat());
        let mut stderr = BufReader::new(child.stderr.take().unwrap()).lines();
        let said = within(SOON, stderr.next_line()).await.unwrap().unwrap();
        assert!(said.contains("without end") && said.contains("that runs this one"), "{said}");
        send(&child, Signal::TERM);
        assert_eq!(ended(child).await.code, 143);
    }
}

#[tokio::test]
async fn a_shell_command_is_run_in_each_way() {
    let server = Server::shared().await;
    let key = unique_prefix();
    let script = "echo $REDLOCK_KEY; exit 3";
    for args in [["run", &key, "-c", script].as_slice(), &["run", "--key", &key, "-c", script]] {
        let ended = run(server, args).await;
        assert_eq!((ended.code, ended.stdout), (3, format!("{key}\n")), "{}", ended.stderr);
    }
}

/// As where a file for containers leaves the value out.
#[tokio::test]
async fn a_shell_without_a_name_is_the_usual_one() {
    let server = Server::shared().await;
    let mut tool = tool(&server.url(), &["run", &unique_prefix(), "-c", "exit 3"]);
    let ended = ended(tool.env("SHELL", "").spawn().unwrap()).await;
    assert_eq!((ended.code, ended.stderr.as_str()), (3, ""));
}

#[tokio::test]
async fn a_waiting_run_has_the_lock_next() {
    let server = Server::shared().await;
    let (marks, key) = (Marks::new(), unique_prefix());
    let script = "echo $REDLOCK_FENCING_TOKEN >first; until [ -e go ]; do sleep 0.02; done";
    let first = start(server, &marks, &["-k", &key, "sh", "-c", script]);
    let token = marks.there("first").await;
    let script = "echo $REDLOCK_FENCING_TOKEN";
    let second = start(server, &marks, &["-w", "forever", "-k", &key, "sh", "-c", script]);
    let (raw, queue) = (server.raw(), format!("{{lock:{key}}}:queue"));
    eventually(SOON, || async { raw.int(&["LLEN", &queue]).await == 1 }).await;
    marks.make("go");
    assert_eq!(ended(first).await.code, 0);
    let second = ended(second).await;
    assert_eq!(second.code, 0, "{second:?}");
    assert!(second.stdout.trim().parse::<u64>().unwrap() > token.parse().unwrap());
}

/// While it saves, for example.
#[tokio::test]
async fn a_server_that_stands_still_for_a_moment_is_waited_for() {
    let server = Server::start().await;
    server.freeze();
    let child = tool(&server.url(), &["run", "-n", "k", "true"]).spawn().unwrap();
    time_passes(secs(2)).await;
    server.thaw();
    let ended = ended(child).await;
    assert_eq!(ended.code, 0, "{ended:?}");
}

/// The command is over before its lease ends, and the server answers the release after that.
#[tokio::test]
async fn a_server_that_stands_still_until_the_lease_is_over_leaves_no_doubt() {
    let server = Server::start().await;
    let (marks, key) = (Marks::new(), unique_prefix());
    let args = ["--expire", "6s", "--grace", "200ms", "-k", &key, "sh", "-c"];
    let script = "echo on >on; until [ -e go ]; do sleep 0.02; done";
    let child = start(&server, &marks, &[&args[..], &[script]].concat());
    marks.there("on").await;
    let left = server.raw().pttl(&format!("lock:{key}")).await.unwrap();
    server.freeze();
    // The release must leave before the end of the lease, and less than five seconds before the
    // thaw: then it would be given up.
    let half = left / 2;
    time_passes(half).await;
    marks.make("go");
    time_passes(half + ms(100)).await;
    server.thaw();
    let ended = ended(child).await;
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
}

#[tokio::test]
async fn without_redis_nothing_runs() {
    let url = "redis://:s3cret@127.0.0.1:1";
    for (wait, least) in [(&["-n"][..], ms(0)), (&["-w", "0"], ms(0)), (&["-w", "1"], secs(1))] {
        let (marks, begun) = (Marks::new(), Instant::now());
        let args = [&["run"], wait, &["k", "touch", "ran"]].concat();
        let child = tool(url, &args).current_dir(marks.path()).spawn().unwrap();
        let ended = ended(child).await;
        assert_eq!(ended.code, 69, "{ended:?}");
        assert!(begun.elapsed() >= least, "{wait:?}: {ended:?}");
        assert!(ended.stderr.contains("redis://127.0.0.1:1"), "{ended:?}");
        assert!(!ended.stderr.contains("s3cret"), "{ended:?}");
        assert_eq!(std::fs::read_dir(marks.path()).unwrap().count(), 0);
    }
}

/// As where both start with their machine.
#[tokio::test]
async fn a_server_that_starts_later_is_waited_for() {
    let server = Server::start().await;
    let (marks, args) = (Marks::new(), ["-w", "forever", "-k", "k", "echo", "ran"]);
    server.kill9();
    let waiting = async || {
        let mut child = start(&server, &marks, &args);
        let mut stderr = BufReader::new(child.stderr.take().unwrap()).lines();
        let said = within(SOON, stderr.next_line()).await.unwrap().unwrap();
        assert!(said.contains("refused") && said.contains("without end"), "{said}");
        child
    };
    let child = waiting().await;
    send(&child, Signal::TERM);
    assert_eq!(ended(child).await.signal, Some(Signal::TERM.as_raw()));
    let child = waiting().await;
    server.start_again().await;
    let ended = ended(child).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "ran\n"), "{ended:?}");
}

/// No later try gets what a person has to change first.
#[tokio::test]
async fn a_login_that_is_refused_is_not_tried_again() {
    let server = Server::builder().requirepass("s3cret").start().await;
    let other = Server::builder().requirepass("s3cret").start().await;
    let majority = format!("{},{},redis://127.0.0.1:1", server.url(), other.url());
    for urls in [server.url(), majority] {
        let child = tool(&urls, &["run", "-w", "forever", "k", "true"]).spawn().unwrap();
        let ended = ended(child).await;
        assert!(ended.code == 69 && ended.stderr.contains("NOAUTH"), "{ended:?}");
    }
}

/// A machine that is out of file descriptors says nothing of the servers.
#[tokio::test]
async fn without_descriptors_the_system_is_blamed() {
    let server = Server::shared().await;
    let (key, tool) = (unique_prefix(), env!("CARGO_BIN_EXE_redlock"));
    for args in [format!("run -w 60 {key} true"), "ls".to_owned()] {
        let mut codes = BTreeSet::new();
        for limit in 4..24 {
            // What this process has inherited would count (`flock`).
            let script = format!("exec 3>&-; ulimit -n {limit}; exec {tool} {args}");
            let command = ["-c", script.as_str()];
            let ended = ended(program("sh", &server.url(), &command).spawn().unwrap()).await;
            let is_blamed = ended.stderr.contains("Too many open files");
            assert_eq!(is_blamed, ended.code == 71, "{limit}: {ended:?}");
            assert!(!ended.stderr.contains("is the server running"), "{limit}: {ended:?}");
            codes.insert(ended.code);
        }
        assert_eq!(codes, BTreeSet::from([0, 71]), "{args}");
    }
}
