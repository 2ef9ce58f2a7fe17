//! The locks of a cluster while its masters change.

use fault_kit::{Cluster, Server, eventually, lines_of, ms, secs};

use crate::support::{Ended, Marks, SOON, ended, tool};
use crate::terminal::Terminal;

/// A further master, without slots, which all servers of the cluster know.
async fn further_master(cluster: &Cluster) -> Server {
    let node = Server::builder().cluster().config("cluster-node-timeout 30000").start().await;
    let (port, bus) = (node.port().to_string(), node.bus_port().to_string());
    let running = || cluster.nodes().iter().filter(|node| node.is_running());
    let first = running().next().unwrap();
    first.raw().cmd(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]).await;
    let id = cluster.id_of(&node).await;
    for server in running() {
        eventually(SOON, || has_met(server, &id)).await;
        let met = cluster.id_of(server).await;
        eventually(SOON, || has_met(&node, &met)).await;
    }
    // In its first seconds a server takes no keys.
    eventually(SOON, || serves(&node)).await;
    node
}

async fn serves(server: &Server) -> bool {
    let info = lines_of(server.raw().cmd(&["CLUSTER", "INFO"]).await);
    info.iter().any(|line| line == "cluster_state:ok")
}

/// Does a server know this one of its cluster, by more than hearsay?
async fn has_met(server: &Server, id: &str) -> bool {
    let known = lines_of(server.raw().cmd(&["CLUSTER", "NODES"]).await);
    known.iter().any(|line| line.starts_with(id) && !line.contains("handshake"))
}

/// Begins to move the slot of a key to this master. Returns the one that has it, and the slot.
async fn begin_to_move<'a>(cluster: &'a Cluster, key: &str, to: &Server) -> (&'a Server, String) {
    let from = cluster.master_of(key).await;
    let slot = cluster.slot_of(key).await.to_string();
    let (from_id, to_id) = (cluster.id_of(from).await, cluster.id_of(to).await);
    to.raw().cmd(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from_id]).await;
    from.raw().cmd(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to_id]).await;
    (from, slot)
}

/// The keys that have gone there are at no master that the others name for any slot.
#[tokio::test]
async fn locks_that_were_moved_to_a_master_without_a_slot() {
    let cluster = Cluster::start_with(secs(30), &[]).await;
    let to = further_master(&cluster).await;
    cluster.raw().cmd(&["SET", "lock:k", "web-3:x", "PX", "600000"]).await;
    let (from, _) = begin_to_move(&cluster, "lock:k", &to).await;
    from.raw().cmd(&["MIGRATE", "127.0.0.1", &to.port().to_string(), "lock:k", "0", "5000"]).await;
    // A user who may not ask for such masters sees all other locks.
    let user = "~* &* +@all -cluster|nodes";
    for server in cluster.nodes().iter().chain([&to]) {
        let words = ["ACL", "SETUSER", "blind", "on", ">secret"].into_iter();
        server.raw().cmd(&words.chain(user.split(' ')).collect::<Vec<_>>()).await;
    }
    let urls = cluster.urls().join(",");
    let on_cluster = async |urls: &str, args: &[&str]| -> Ended {
        ended(tool(urls, &[&["--cluster"], args].concat()).spawn().unwrap()).await
    };
    let listed = on_cluster(&urls, &["ls"]).await;
    assert!(listed.code == 0 && listed.stdout.contains("web-3:x"), "{listed:?}");
    let doctor = on_cluster(&urls, &["doctor", "--json"]).await;
    assert!(doctor.stdout.contains(&to.url()), "{doctor:?}");
    let blind = urls.replace("redis://", "redis://blind:secret@");
    let listed = on_cluster(&blind, &["ls"]).await;
    assert_eq!((listed.code, listed.stdout.as_str()), (0, ""), "{listed:?}");
    let doctor = on_cluster(&blind, &["doctor", "--json"]).await;
    let needed = "`ls` and `top` would need +cluster|nodes";
    assert_eq!(doctor.stdout.matches(needed).count(), 3, "{doctor:?}");
}

#[tokio::test]
async fn top_follows_the_masters_of_a_cluster() {
    let (cluster, marks) = (Cluster::start_with(ms(1500), &[]).await, Marks::new());
    let raw = cluster.raw();
    let hold = async |server: &Server, name: &str| {
        let (raw, lock) = (server.raw(), format!("lock:{name}"));
        // It refuses that until it has heard of the change from most of the others.
        let set = ["SET", &lock, "web-3:x", "PX", "600000"];
        eventually(SOON, || raw.try_cmd(&set)).await;
    };
    raw.cmd(&["SET", "lock:alpha", "web-3:x", "PX", "600000"]).await;
    let urls = cluster.urls();
    let named = urls.iter().flat_map(|url| ["--url", url]);
    let words = [env!("CARGO_BIN_EXE_redlock"), "top", "--cluster", "--interval", "100ms"];
    let words: Vec<&str> = words.into_iter().chain(named).collect();
    let mut terminal = Terminal::start(&cluster.nodes()[0], &marks, &words);
    // No two names have a letter in the same place: of a row only what has changed is written.
    terminal.shows("alpha").await;

    // A replica takes over.
    let old = cluster.master_of("lock:BRAVO").await;
    old.kill9();
    let successor = cluster.successor_of(old, "lock:BRAVO").await;
    hold(successor, "BRAVO").await;
    terminal.shows("BRAVO").await;

    // A master comes, and gets a slot.
    let to = further_master(&cluster).await;
    let (from, slot) = begin_to_move(&cluster, "lock:third", &to).await;
    let to_id = cluster.id_of(&to).await;
    for server in [&to, from] {
        server.raw().cmd(&["CLUSTER", "SETSLOT", &slot, "NODE", &to_id]).await;
    }
    hold(&to, "third").await;
    terminal.shows("third").await;
    terminal.press(b"q");
    assert_eq!(terminal.ended_by().await, None);
}
