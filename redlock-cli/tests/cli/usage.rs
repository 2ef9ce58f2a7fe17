//! Help, completions, the manual page, and errors of the command line.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixDatagram;
use std::process::Stdio;

use fault_kit::Server;

use crate::support::{Ended, ended, run, tool};

async fn without_server(args: &[&str]) -> Ended {
    let mut command = tool("", args);
    ended(command.env_remove("REDLOCK_URLS").spawn().unwrap()).await
}

#[tokio::test]
async fn help_needs_no_server() {
    for args in [
        &["--help"][..],
        &["run", "--help"],
        &["--version"],
        &["completions", "bash"],
        &["completions", "zsh"],
        &["man"],
    ] {
        let ended = without_server(args).await;
        assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{args:?}");
        assert!(ended.stdout.contains("redlock"), "{args:?}");
        assert!(!ended.stdout.contains("internal-"), "{args:?}: roles are not commands");
    }
}

/// The help of `run` says it, and its options alone do not.
#[tokio::test]
async fn the_manual_page_says_how_to_write_a_command() {
    let page = without_server(&["man"]).await.stdout;
    for line in [
        r"redlock run [OPTIONS] \-\-key KEY [\-\-] COMMAND [ARG]..",
        "redlock run [OPTIONS] KEY COMMAND [ARG]..",
        "redlock ls [OPTIONS] [PATTERN]",
    ] {
        assert!(page.lines().any(|one| one == line), "{line}\n{page}");
    }
}

#[tokio::test]
async fn wrong_usage_says_what_to_write() {
    for (args, said) in [
        (&[][..], "Usage: redlock"),
        (&["lock"], "unrecognized subcommand"),
        (&["run"], "--key KEY"),
        (&["run", "k"], "nothing to run"),
        (&["run", "--", "backup", "--all"], "--key KEY"),
        (&["run", "k", "-c", "echo a", "b", "c"], "`-c` takes one word, and `b` follows it; quote"),
        (
            &["run", "-k", "k", "-c", "echo a", "b"],
            "`-c` takes one word, and `b` follows it; quote",
        ),
        (&["run", "-w", "1m30", "k", "true"], "`1m30s`"),
        (&["run", "-w", "soon", "k", "true"], "`500ms`"),
        (&["run", "-n", "-w", "5", "k", "true"], "cannot be used with"),
        (&["run", "--read", "--permits", "2", "k", "true"], "cannot be used with"),
        (&["run", "--permits", "0", "k", "true"], "1.."),
        (&["run", "--expire", "100ms", "k", "true"], "at least 1.0 s"),
        (&["run", "--expire", "10s", "--grace", "10s", "k", "true"], "--grace 10.0 s"),
        (&["watch", "k", "--interval", "9ms", "--url", "redis://a"], "10ms is the shortest"),
        (&["run", "k", "true"], "REDIS_URL"),
        (&["ls"], "REDIS_URL"),
        (&["ls", "--url-file", "/nowhere/urls"], "/nowhere/urls"),
        (&["ls", "--url", "127.0.0.1:6379"], "redis://127.0.0.1:6379"),
        (&["ls", "--url", "redis://:s3cret@127.0.0.1"], "--url-file"),
        (&["ls", "--url", "redis://a", "--sentinel", "redis://u:s3cret@m"], "REDLOCK_SENTINEL"),
        (&["--sentinel", "redis://:s3cret@m", "ls", "--url", "redis://a"], "REDLOCK_SENTINEL"),
    ] {
        let ended = without_server(args).await;
        assert_eq!(ended.code, 64, "{args:?}: {ended:?}");
        assert!(ended.stderr.contains(said), "{args:?}: {ended:?}");
        assert!(ended.stdout.is_empty() && !ended.stderr.contains("s3cret"), "{ended:?}");
    }
}

/// `--` would make the option a part of the command, or a pattern.
#[tokio::test]
async fn an_option_that_does_not_exist_is_no_value() {
    for (args, tip) in [
        (&["run", "--ttl", "5", "k", "true"][..], None),
        (&["ls", "--foo"], None),
        (&["run", "--waitt", "5", "k", "true"], Some("a similar argument exists: '--wait'")),
    ] {
        let ended = without_server(args).await;
        let tips: Vec<&str> =
            ended.stderr.lines().filter_map(|line| line.trim().strip_prefix("tip: ")).collect();
        assert_eq!((ended.code, tips), (64, tip.into_iter().collect()), "{ended:?}");
    }
}

/// In a log that several processes share, the lines of two of them must not mix.
#[tokio::test]
async fn what_goes_to_stderr_is_one_write() {
    for (args, begin, end) in [
        (&["run", "k", "true"][..], "redlock: no server is named", "--url-file\n"),
        (&["run", "--ttl", "5"], "error: unexpected argument", "try '--help'.\n"),
    ] {
        let (log, stderr) = UnixDatagram::pair().unwrap();
        let mut command = tool("", args);
        command.env_remove("REDLOCK_URLS").stderr(Stdio::from(OwnedFd::from(stderr)));
        let mut child = command.spawn().unwrap();
        drop(command);
        assert_eq!(child.wait().await.unwrap().code(), Some(64));
        let mut text = [0; 4096];
        let length = log.recv(&mut text).unwrap();
        let text = str::from_utf8(&text[..length]).unwrap();
        assert!(text.starts_with(begin) && text.ends_with(end), "{text:?}");
    }
}

/// As on a disk that is full.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_error_that_cannot_be_written() {
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let status = tool("", &["run", "--ttl"]).stderr(full).status().await.unwrap();
    assert_eq!(status.code(), Some(71));
}

#[tokio::test]
async fn a_bad_url_is_named_by_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("urls");
    std::fs::write(&file, "# locks\nredis://a\nnonsense-s3cret\n").unwrap();
    let place = format!("URL 2 of 2 in --url-file {}: ", file.display());
    let file = file.to_str().unwrap();
    for (variable, value, args, place) in [
        ("REDIS_URL", "nonsense-s3cret", &["ls"][..], "the value of REDIS_URL: "),
        ("REDLOCK_URLS", "redis://:s3cret@a:x", &["ls"], "the value of REDLOCK_URLS: "),
        (
            "REDLOCK_URLS",
            "redis://a,redis://s3cret@b,redis://c",
            &["run", "k", "true"],
            "URL 2 of 3 in REDLOCK_URLS: ",
        ),
        ("REDIS_URL", "redis://a", &["ls", "--url-file", file], &place),
        ("REDIS_URL", "redis://a", &["ls", "--url", "nonsense"], "the value of --url: "),
        ("REDLOCK_SENTINEL", "http://:s3cret@m", &["ls", "--url", "redis://a"], "REDLOCK_SENTINEL"),
    ] {
        let mut command = tool("", args);
        let ended = ended(command.env(variable, value).spawn().unwrap()).await;
        assert_eq!(ended.code, 64, "{args:?}: {ended:?}");
        assert!(ended.stderr.contains(place), "{args:?}: {ended:?}");
        assert!(!ended.stderr.contains("s3cret"), "{ended:?}");
    }
}

/// As where a file for containers names a variable and leaves its value out.
#[tokio::test]
async fn a_blank_variable_is_none() {
    let server = Server::shared().await;
    let key = fault_kit::unique_prefix();
    server.raw().cmd(&["SET", &format!("lock:{key}"), "me", "PX", "60000"]).await;
    for blank in ["", " "] {
        let mut show = tool(&server.url_with_password(), &["show", &key]);
        for name in ["PREFIX", "SENTINEL", "CLUSTER", "LONGEST_EXPIRE"] {
            show.env(format!("REDLOCK_{name}"), blank);
        }
        let shown = ended(show.spawn().unwrap()).await;
        assert_eq!(shown.code, 0, "{blank:?}: {shown:?}");
        let mut without = tool(&server.url_with_password(), &["show", &key, "--prefix", ""]);
        let shown = ended(without.env("REDLOCK_PREFIX", blank).spawn().unwrap()).await;
        assert_eq!(shown.code, 1, "no prefix was asked for: {shown:?}");
    }
    let mut both = tool("redis://a", &["ls", "--sentinel", "m"]);
    let both = ended(both.env("REDLOCK_CLUSTER", "1").spawn().unwrap()).await;
    assert!(both.code == 64 && both.stderr.contains("--cluster"), "{both:?}");
}

#[tokio::test]
async fn a_variable_that_cannot_be_meant_is_named() {
    for (variable, value, told) in [
        ("REDLOCK_URLS", " ,", "REDLOCK_URLS names no server"),
        ("REDLOCK_PREFIX", "shop: ", "REDLOCK_PREFIX is `shop: `, with white space at its ends"),
        ("REDLOCK_LONGEST_EXPIRE", "soon", "(REDLOCK_LONGEST_EXPIRE) is `soon`: write seconds"),
    ] {
        let mut command = tool("redis://127.0.0.1:1", &["ls"]);
        let ended = ended(command.env(variable, value).spawn().unwrap()).await;
        assert!(ended.code == 64 && ended.stderr.contains(told), "{ended:?}");
    }
    let server = Server::shared().await;
    let mut meant = tool(&server.url_with_password(), &["ls", "--prefix", "shop: "]);
    let meant = ended(meant.spawn().unwrap()).await;
    assert_eq!(meant.code, 0, "{meant:?}");
}

#[tokio::test]
async fn urls_that_are_separated_wrongly_are_told_how() {
    for (variable, list) in [
        ("REDLOCK_URLS", "redis://:s3cret@a:1;redis://:s3cret@b:1"),
        ("REDIS_URL", "redis://:s3cret@a,redis://:s3cret@b"),
    ] {
        let mut command = tool("", &["ls"]);
        let ended = ended(command.env(variable, list).spawn().unwrap()).await;
        assert!(ended.code == 64 && ended.stderr.contains("separated by commas"), "{ended:?}");
        assert!(!ended.stderr.contains("s3cret"), "{ended:?}");
    }
}

#[tokio::test]
async fn a_key_that_no_lock_can_have() {
    let server = Server::shared().await;
    for args in [&["run", "a\nb", "true"][..], &["show", "a:fence"], &["watch", ""]] {
        let ended = run(server, args).await;
        assert_eq!(ended.code, 64, "{args:?}: {ended:?}");
        assert!(ended.stderr.contains("invalid lock key"), "{ended:?}");
    }
}

/// A list that is empty for that would say that nothing is locked.
#[tokio::test]
async fn a_prefix_that_no_lock_can_have() {
    let server = Server::shared().await;
    for command in [&["run", "k", "true"][..], &["ls"], &["show", "k"], &["doctor"]] {
        for prefix in ["a\nb", "{a}"] {
            let ended = run(server, &[&["--prefix", prefix], command].concat()).await;
            assert_eq!(ended.code, 64, "{command:?}: {ended:?}");
            assert!(ended.stderr.contains("`prefix`"), "{ended:?}");
        }
    }
}

/// As other programs do that a closed pipe ends.
#[tokio::test]
async fn nobody_reads_what_is_printed() {
    let server = Server::shared().await;
    let key = fault_kit::unique_prefix();
    server.raw().cmd(&["SET", &format!("lock:{key}"), "me", "PX", "60000"]).await;
    for args in [&["ls", &key][..], &["show", &key], &["doctor"], &["man"], &["--help"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = tool(&server.url(), args);
        let ended = ended(command.stdout(writer).spawn().unwrap()).await;
        assert_eq!((ended.code, ended.stderr.as_str()), (141, ""), "{args:?}");
    }
}

#[tokio::test]
async fn servers_are_named_by_flags_files_and_variables() {
    let server = Server::builder().requirepass("s3cret").start().await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("urls");
    std::fs::write(&file, format!("# locks\n{}\n", server.url_with_password())).unwrap();
    let by_file = without_server(&["ls", "--url-file", file.to_str().unwrap()]).await;
    assert_eq!(by_file.code, 0, "{by_file:?}");
    let mut by_variable = tool("", &["ls"]);
    let url = format!(" {}\n", server.url_with_password());
    by_variable.env_remove("REDLOCK_URLS").env("REDIS_URL", url);
    assert_eq!(ended(by_variable.spawn().unwrap()).await.code, 0);
    let open = without_server(&["ls", "--url", &server.url()]).await;
    assert_eq!(open.code, 69);
    assert!(open.stderr.contains("NOAUTH"), "{open:?}");
}

/// A variable that cannot be read is not as good as none: the lock would be on another server.
#[tokio::test]
async fn a_variable_that_is_no_text_names_no_other_server() {
    let server = Server::shared().await;
    for name in [
        "REDLOCK_URLS",
        "REDLOCK_TLS_CA",
        "REDLOCK_TLS_KEY",
        "REDLOCK_PREFIX",
        "REDLOCK_SENTINEL",
        "REDLOCK_CLUSTER",
    ] {
        let mut command = tool("", &["run", "k", "true"]);
        command.env("REDIS_URL", server.url()).env_remove("REDLOCK_URLS");
        command.env(name, OsStr::from_bytes(b"redis://\xff"));
        let ended = ended(command.spawn().unwrap()).await;
        assert_eq!(ended.code, 64, "{name}: {ended:?}");
        let said = format!("the value of {name} is no UTF-8 text");
        assert!(ended.stderr.contains(&said), "{name}: {ended:?}");
    }
    let mut command = tool(&server.url(), &["ls", "--prefix"]);
    let command = command.arg(OsStr::from_bytes(b"\xff")).env("REDLOCK_PREFIX", "p");
    let ended = ended(command.spawn().unwrap()).await;
    assert!(ended.code == 64 && ended.stderr.contains("more arguments"), "{ended:?}");
}
