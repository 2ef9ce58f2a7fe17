//! docs/protocol.md says what is in the scripts and on the wire.

use deadpool_redis::redis::{Script, from_redis_value};
use redlock::Redlock;

use crate::support::{Proxy, Server, eventually, secs, unique_prefix};

const DOCUMENT: &str = include_str!("../../docs/protocol.md");
const HEAD: &str = concat!(script!("hand_over.lua"), shared!("holders.lua"));

/// What stands ahead of the heads.
const QUICK: [&str; 4] = [
    script!("quick_release.lua"),
    script!("quick_release_all.lua"),
    shared!("quick_acquire.lua"),
    shared!("quick_release.lua"),
];

macro_rules! with_head {
    ($name:literal) => {
        concat!(script!("hand_over.lua"), shared!("holders.lua"), script!($name))
    };
}

macro_rules! with_join {
    ($name:literal) => {
        concat!(
            script!("hand_over.lua"),
            shared!("holders.lua"),
            shared!("join.lua"),
            shared!($name)
        )
    };
}

const SHARED: [(&str, &str); 6] = [
    ("shared/acquire.lua", concat!(shared!("quick_acquire.lua"), with_join!("acquire.lua"))),
    ("shared/enqueue.lua", with_join!("enqueue.lua")),
    ("shared/downgrade.lua", with_join!("downgrade.lua")),
    (
        "shared/release.lua",
        concat!(
            shared!("quick_release.lua"),
            script!("hand_over.lua"),
            shared!("holders.lua"),
            shared!("release.lua")
        ),
    ),
    ("shared/renew.lua", shared!("renew.lua")),
    ("shared/raise.lua", shared!("raise.lua")),
];

const SCRIPTS: [(&str, &str); 11] = [
    ("acquire.lua", script!("acquire.lua")),
    ("acquire_all.lua", script!("acquire_all.lua")),
    ("raise.lua", script!("raise.lua")),
    ("renew.lua", script!("renew.lua")),
    ("retain.lua", script!("retain.lua")),
    ("release_hint.lua", script!("release_hint.lua")),
    ("release.lua", concat!(script!("quick_release.lua"), with_head!("release.lua"))),
    ("release_all.lua", concat!(script!("quick_release_all.lua"), with_head!("release_all.lua"))),
    ("enqueue.lua", with_head!("enqueue.lua")),
    ("rotate.lua", with_head!("rotate.lua")),
    ("nudge.lua", with_head!("nudge.lua")),
];

#[tokio::test]
async fn the_documented_digests_are_those_of_the_scripts() {
    let raw = Server::shared().await.raw();
    for (name, text) in SCRIPTS.into_iter().chain(SHARED) {
        let digest = Script::new(text).get_hash().to_owned();
        assert!(DOCUMENT.contains(&format!("| `{name}` | `{digest}` |")), "{name}: {digest}");
        let loaded: String = from_redis_value(raw.cmd(&["SCRIPT", "LOAD", text]).await).unwrap();
        assert_eq!(loaded, digest, "the server's own opinion of {name}");
        if name.starts_with("shared") {
            continue;
        }
        let strict = include_str!("../../docs/security.md");
        assert!(strict.contains(&format!("+evalsha|{digest}")), "{name}: {digest}");
    }
}

#[test]
fn the_documented_commands_are_those_of_the_scripts() {
    let mut called: Vec<&str> = Vec::new();
    for (_, text) in SCRIPTS.into_iter().chain(SHARED) {
        let calls = text.split("redis.call('").chain(text.split("redis.pcall('"));
        called.extend(calls.filter_map(|call| call.split_once('\'')).map(|(name, _)| name));
    }
    called.retain(|name| name.bytes().all(|byte| byte.is_ascii_uppercase()));
    called.sort_unstable();
    called.dedup();
    let of_queues = ["LINDEX", "LLEN", "LPOP", "LRANGE", "LREM", "PUBLISH", "PUBSUB", "RPUSH"];
    let of_holders = ["ZADD", "ZCOUNT", "ZRANGE", "ZREM", "ZREMRANGEBYSCORE", "ZSCORE"];
    let of_locks = ["DEL", "GET", "MGET", "PEXPIRE", "PTTL", "SET", "SETRANGE", "TIME"];
    let mut documented = [&of_locks[..], &of_queues, &of_holders].concat();
    documented.sort_unstable();
    assert_eq!(called, documented);
    assert!(
        DOCUMENT.contains("`GET`, `MGET`, `SET`, `SETRANGE`, `DEL`, `PEXPIRE`, `PTTL` and `TIME`")
    );
    assert!(
        of_queues
            .iter()
            .chain(&of_holders)
            .all(|command| DOCUMENT.contains(&format!("`{command}`")))
    );
}

/// Headers of scripts say what the table says.
#[test]
fn every_script_says_its_keys_arguments_and_returns() {
    for (name, text) in SCRIPTS.into_iter().chain(SHARED) {
        let text = QUICK
            .into_iter()
            .chain([HEAD])
            .fold(text, |text, part| text.strip_prefix(part).unwrap_or(text));
        let text = text.strip_prefix(shared!("join.lua")).unwrap_or(text);
        let name = name.trim_start_matches("shared/");
        let header: Vec<&str> = text.lines().take_while(|line| line.starts_with("--")).collect();
        let says = |what: &str| header.iter().any(|line| line.contains(what));
        assert!(header[0].starts_with(&format!("-- {}", name.trim_end_matches(".lua"))));
        assert!(says("KEYS[") && says("ARGV[") && says("Returns"), "{name}: {header:?}");
    }
}

/// One command for each turn of a lock, and no other.
#[tokio::test]
async fn a_lock_costs_one_command_for_each_turn() {
    let server = Server::start().await;
    let proxy = Proxy::start(&server);
    let redlock = Redlock::builder().url(proxy.url()).prefix(unique_prefix()).build().await;
    let redlock = redlock.unwrap();
    assert!((1..=3).contains(&proxy.count("INFO")), "at startup, and who answers each connection");
    // The server learns the scripts, each once: that of renewals as soon as there is a connection.
    assert_eq!((proxy.count("EVALSHA"), proxy.count("EVAL")), (1, 1));
    proxy.forget();
    let guard = redlock.lock("k").expire(secs(6)).acquire().await.unwrap();
    eventually(secs(20), || async { guard.renewals() >= 1 }).await;
    guard.release().await.unwrap();
    assert_eq!(proxy.count("EVAL"), 2, "{:?}", proxy.command_log());
    proxy.forget();
    for n in 1..=20 {
        let guard = redlock.lock("k").acquire().await.unwrap();
        guard.release().await.unwrap();
        assert_eq!(proxy.command_log(), vec!["EVALSHA"; 2 * n]);
    }
    proxy.forget();
    let guard = redlock.lock("k").expire(secs(6)).acquire().await.unwrap();
    eventually(secs(30), || async { guard.renewals() >= 2 }).await;
    let renewals = usize::try_from(guard.renewals()).unwrap();
    guard.release().await.unwrap();
    // A slow machine may repeat a renewal whose answer was late, never more than it counts.
    let sent = proxy.count("EVALSHA");
    assert!((2 + renewals..=4 + 2 * renewals).contains(&sent), "{sent} for {renewals}");
}

/// What is written under "Keys".
#[tokio::test]
async fn the_documented_keys_are_all_there_is() {
    let server = Server::start().await;
    let raw = server.raw();
    let redlock = Redlock::builder().url(server.url()).client_name("web-3").build().await.unwrap();
    let (plain, tagged) = (redlock.lock("stock-42"), redlock.lock("{stock}-42"));
    let plain = plain.expire(secs(10)).acquire().await.unwrap();
    let tagged = tagged.expire(secs(10)).acquire().await.unwrap();
    let mark = "lock:{043456}:mark:fence";
    let expected = [mark, "lock:{040411}:mark:fence", "lock:stock-42", "lock:{stock}-42"];
    let mut keys = raw.keys("*").await;
    keys.sort_unstable_by_key(|key| expected.iter().position(|expected| expected == key));
    assert_eq!(keys, expected);
    assert!(DOCUMENT.contains(mark));
    assert_eq!(raw.get("lock:stock-42").await.as_deref(), Some(plain.owner()));
    assert!(plain.owner().starts_with("web-3:"), "{}", plain.owner());
    let last_reserved = u64::from(plain.fencing_token()) + 3;
    assert_eq!(raw.get(mark).await, Some(last_reserved.to_string()));
    for key in expected {
        let kind: String = from_redis_value(raw.cmd(&["TYPE", key]).await).unwrap();
        let pttl = raw.pttl(key).await.expect("it is there");
        let longest = if key.ends_with(":fence") { secs(48 * 3600) } else { secs(10) };
        assert!(kind == "string" && pttl <= longest && pttl > longest / 2, "{key}: {pttl:?}");
    }
    plain.release().await.unwrap();
    tagged.release().await.unwrap();
    assert_eq!(raw.keys("*").await.len(), 2, "the marks expire by themselves");
}

/// Where a lock has a counter, the next fencing token is above the counter, not above the mark.
#[tokio::test]
async fn readers_get_tokens_above_the_one_that_servers_have_agreed_on() {
    let server = Server::shared().await;
    let (raw, prefix) = (server.raw(), unique_prefix());
    let redlock = Redlock::builder().url(server.url()).prefix(&prefix).build().await.unwrap();
    let held = redlock.lock("k").acquire().await.unwrap().downgrade().await.unwrap();
    let key = format!("{prefix}k");
    let helper = |name: &str| format!("{{{key}}}:{name}");
    let mark = raw.keys(&format!("{prefix}*:mark:fence")).await.remove(0);
    let last = raw.get(&mark).await.expect("a downgrade leaves a mark");
    // As where a writer has waited for the lock before.
    raw.cmd(&["SET", &helper("fence"), &last]).await;
    let agreed = (last.parse::<u64>().unwrap() + 3_600_000_000).to_string();
    let keys = [&key, &mark, &helper("fence"), &helper("holders")];
    let mut words = vec!["EVAL", shared!("raise.lua"), "4"];
    words.extend(keys.map(String::as_str));
    words.extend([held.owner(), &agreed, "100000", "<readers>"]);
    assert_eq!(raw.int(&words).await, 1);
    raw.cmd(&["RPUSH", &helper("queue"), "0 0 0 nobody nobody"]).await;
    let next = redlock.lock("k").read().acquire().await.unwrap();
    assert!(next.fencing_token() > agreed.parse().unwrap(), "{}", next.fencing_token());
}
