//! Servers that speak TLS: the files that variables name are for all of them.

use fault_kit::{Authority, Certificate, Cluster, Sentinels, Server, secs};
use tokio::process::Command;

use crate::support::{Ended, ended, tool};

fn own(ours: &Authority) -> Certificate {
    ours.sign("client", &["client"], 4096)
}

fn with_files(mut command: Command, ours: &Authority, own: &Certificate) -> Command {
    command.env("REDLOCK_TLS_CA", ours.file());
    command.env("REDLOCK_TLS_CERT", &own.chain_file).env("REDLOCK_TLS_KEY", &own.key_file);
    command
}

async fn output(mut command: Command) -> Ended {
    ended(command.spawn().unwrap()).await
}

/// What looks at locks, and what takes one.
async fn all_works(command: impl Fn(&[&str]) -> Command) {
    let listed = output(command(&["ls"])).await;
    assert!(listed.code == 0 && listed.stdout.contains("web-3"), "{listed:?}");
    let shown = output(command(&["show", "k"])).await;
    assert!(shown.code == 0 && shown.stdout.contains("web-3"), "{shown:?}");
    let ran = output(command(&["run", "-k", "job", "true"])).await;
    assert_eq!(ran.code, 0, "{ran:?}");
    let doctor = output(command(&["doctor"])).await;
    assert!(doctor.code < 2, "{doctor:?}");
    let released = output(command(&["release", "--force", "-y", "k"])).await;
    assert_eq!(released.code, 0, "{released:?}");
}

#[tokio::test]
async fn sentinels_and_their_master_are_reached_with_the_files() {
    let ours = Authority::new("ours");
    let own = own(&ours);
    let tls = ours.settings(&ours.certify(), true);
    let set = Sentinels::start_over_tls(secs(60), &tls).await;
    let master = set.master().await.raw();
    master.cmd(&["SET", "lock:k", "web-3:x", "PX", "600000"]).await;
    let urls = set.tls_urls().join(",");
    let command = |args: &[&str]| {
        let mut command = with_files(tool(&urls, args), &ours, &own);
        command.env("REDLOCK_SENTINEL", "rediss://mymaster");
        command
    };
    all_works(command).await;
    for args in [&["ls"][..], &["show", "k"], &["doctor"], &["run", "k", "true"]] {
        let mut bare = command(args);
        bare.env("REDLOCK_SENTINEL", "mymaster");
        let told = output(bare).await;
        assert_eq!(told.code, 64, "{args:?}: {told:?}");
        assert!(told.stderr.contains("write `rediss://mymaster`"), "{args:?}: {told:?}");
    }
}

/// As `redlock run` says it: the commonest error with a new server.
#[tokio::test]
async fn a_server_that_speaks_tls_only_is_told_as_such() {
    let ours = Authority::new("ours");
    let server = Server::builder().tls(&ours.settings(&ours.certify(), false)).start().await;
    let url = format!("redis://127.0.0.1:{}", server.tls_port());
    for args in [&["ls"][..], &["show", "k"], &["watch", "k"], &["run", "-n", "k", "true"]] {
        let told = output(tool(&url, args)).await;
        assert!(told.code == 69 && told.stderr.contains("write `rediss://`"), "{told:?}");
    }
}

#[tokio::test]
async fn a_bad_file_is_told_by_its_variable() {
    let ours = Authority::new("ours");
    let own = own(&ours);
    for (variable, cert, key) in [
        ("REDLOCK_TLS_CERT", &own.key_file, &own.key_file),
        ("REDLOCK_TLS_KEY", &own.chain_file, &own.chain_file),
    ] {
        let mut command = tool("rediss://127.0.0.1:1", &["ls"]);
        command.env("REDLOCK_TLS_CERT", cert).env("REDLOCK_TLS_KEY", key);
        let told = output(command).await;
        let is_told = told.stderr.contains(&format!("the file that {variable} names"));
        assert!(told.code == 64 && is_told, "{told:?}");
        let blames = ["`Tls`", "REDLOCK_URLS"].map(|other| told.stderr.contains(other));
        assert_eq!(blames, [false; 2], "{told:?}");
    }
}

#[tokio::test]
async fn the_servers_of_a_cluster_are_reached_with_the_files() {
    let ours = Authority::new("ours");
    let own = own(&ours);
    let tls = ours.settings(&ours.certify(), true);
    let cluster = Cluster::start_over_tls(secs(60), &tls).await;
    cluster.raw().cmd(&["SET", "lock:k", "web-3:x", "PX", "600000"]).await;
    let urls = cluster.tls_urls().join(",");
    let command = |args: &[&str]| {
        let mut command = with_files(tool(&urls, args), &ours, &own);
        command.env("REDLOCK_CLUSTER", "1");
        command
    };
    all_works(command).await;
}
