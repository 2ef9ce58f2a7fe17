//! What one server says of itself.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime};

use redlock::__operator::{InfoText, info_field, server_mode};
use redlock::NodeErrorKind;
use redlock::deadpool_redis::redis;

use super::finding::Report;
use crate::duration;
use crate::failure::told;
use crate::node::Node;
use crate::servers::Topology;

/// So many round trips are measured; the one in the middle counts.
const TRIPS: usize = 9;
/// Slower servers cost callers more than they expect.
const SLOW: Duration = Duration::from_millis(50);
/// Further apart, the times in logs mislead.
const FAR: Duration = Duration::from_secs(2);
const OLDEST: u32 = 5;

/// What concerns the other servers, too.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) is_reachable: bool,
    pub(super) run_id: Option<String>,
}

pub(super) async fn check(node: &mut Node, topology: &Topology, report: &mut Report) -> Known {
    if !reach(node, topology, report).await {
        return Known::default();
    }
    let InfoText(info) = match node.query(redis::cmd("INFO").arg("everything")).await {
        Ok(info) => info,
        Err(error) => {
            report.doubtful(
                "info",
                format!("version, role and eviction policy are unknown: {error}; grant +info"),
            );
            return Known { is_reachable: true, run_id: None };
        }
    };
    let info = Info(&info);
    version(info, report);
    if !mode(info, topology, report) {
        return Known { is_reachable: true, run_id: None };
    }
    role(info, topology, report);
    memory(info, report);
    persistence(node, info, topology, report).await;
    Known { is_reachable: true, run_id: info.field("run_id").map(str::to_owned) }
}

/// The reply to `INFO`.
#[derive(Debug, Clone, Copy)]
struct Info<'a>(&'a str);

impl<'a> Info<'a> {
    fn field(self, name: &str) -> Option<&'a str> {
        info_field(self.0, name)
    }

    fn number(self, name: &str) -> u64 {
        self.field(name).and_then(|value| value.parse().ok()).unwrap_or(0)
    }
}

/// Asks for the time: that shows whether the server is there, how far away, and what its clock is.
async fn reach(node: &mut Node, topology: &Topology, report: &mut Report) -> bool {
    // The first question connects.
    if let Err(error) = node.query::<Vec<u64>>(&redis::cmd("TIME")).await {
        if error.kind() == NodeErrorKind::NoPermission {
            report.doubtful("clock", format!("its time is unknown: {error}; grant +time"));
            return true;
        }
        // A sentinel does not report its time.
        let InfoText(info) = match error.kind() {
            NodeErrorKind::Refused => node.query(&redis::cmd("INFO")).await.unwrap_or_default(),
            _ => InfoText::default(),
        };
        if mode(Info(&info), topology, report) {
            report.bad("reachable", told(&error));
        }
        return false;
    }
    let mut trips = Vec::new();
    let mut clocks = Vec::new();
    for _ in 0..TRIPS {
        let (sent, here) = (Instant::now(), SystemTime::now());
        let Ok(time) = node.query::<Vec<u64>>(&redis::cmd("TIME")).await else { continue };
        let trip = sent.elapsed();
        trips.push(trip);
        if let [seconds, micros] = time[..] {
            let there = Duration::from_secs(seconds).saturating_add(Duration::from_micros(micros));
            let here = here.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default() + trip / 2;
            clocks.push((trip, there.as_secs_f64() - here.as_secs_f64()));
        }
    }
    trips.sort();
    let Some(trip) = trips.get(trips.len() / 2) else {
        report.bad("reachable", "the server stopped answering");
        return false;
    };
    latency(*trip, topology, report);
    // The fastest trip leaves the least doubt about the moment of the answer.
    if let Some((_, offset)) = clocks.into_iter().min_by_key(|(trip, _)| *trip) {
        clock(offset, topology, report);
    }
    true
}

/// An answer to a renewal may take a twelfth of the lease; one of several servers to an acquire a
/// twentieth.
fn latency(trip: Duration, topology: &Topology, report: &mut Report) {
    let text = format!("answers within {:.2} ms", trip.as_secs_f64() * 1_000.0);
    if trip <= SLOW {
        return report.good("latency", text);
    }
    let least = duration::show(trip * if topology.is_quorum() { 20 } else { 12 });
    report.doubtful("latency", format!("{text}; every `expire` must be longer than {least}"));
}

/// offset: by how many seconds the server's clock is ahead of this machine's.
fn clock(offset: f64, topology: &Topology, report: &mut Report) {
    let span = Duration::try_from_secs_f64(offset.abs()).unwrap_or(Duration::MAX);
    let text = format!("{} {} this machine's", duration::show(span), side(offset));
    if span <= FAR {
        return report.good("clock", text);
    }
    let condition = match topology {
        Topology::Masters(servers) if servers.len() > 1 => {
            "; a server more than 1 s off the others has no vote for a while"
        }
        Topology::Masters(_) => " and a replica that takes over shows the same time",
        _ => " and a server that takes over shows the same time",
    };
    let told = format!("{text}: leases do not mind, as long as it does not jump{condition}");
    report.doubtful("clock", format!("{told}; set it by NTP"));
}

fn side(offset: f64) -> &'static str {
    if offset < 0.0 { "behind" } else { "ahead of" }
}

fn version(info: Info<'_>, report: &mut Report) {
    let valkey = info.field("valkey_version").map(|version| ("Valkey", version));
    let redis = info.field("redis_version").map(|version| ("Redis", version));
    let Some((name, version)) = valkey.or(redis) else {
        return report.doubtful("version", "the server does not tell its version");
    };
    let major = version.split('.').next().and_then(|major| major.parse().ok()).unwrap_or(0);
    if major < OLDEST {
        report.bad("version", format!("{name} {version} is too old; use {OLDEST}.0 or newer"));
    } else {
        report.good("version", format!("{name} {version}"));
    }
}

/// Does this server have locks, and those of all keys?
fn mode(info: Info<'_>, topology: &Topology, report: &mut Report) -> bool {
    let text = match server_mode(info.0) {
        Some("sentinel") => {
            "this is a sentinel, which has no locks; use `--sentinel NAME`, or REDLOCK_SENTINEL"
        }
        Some("cluster") if !matches!(topology, Topology::Cluster(_)) => {
            "this server belongs to a Redis Cluster, and has the locks of its own slots only; use \
             `--cluster`, or REDLOCK_CLUSTER=1"
        }
        _ => return true,
    };
    report.bad("mode", text);
    false
}

fn role(info: Info<'_>, topology: &Topology, report: &mut Report) {
    match info.field("role") {
        Some("master") | None => master(info.number("connected_slaves"), topology, report),
        Some(role) => report.bad(
            "role",
            format!("{role}: locks need a master; name its address, or use --sentinel"),
        ),
    }
}

/// A replica lags behind, and may take over.
fn master(replicas: u64, topology: &Topology, report: &mut Report) {
    let text = format!("master, {replicas} {}", if replicas == 1 { "replica" } else { "replicas" });
    let advice = match topology {
        Topology::Masters(urls) if urls.len() > 1 || replicas == 0 => {
            return report.good("role", text);
        }
        Topology::Cluster(_) => "set min-replicas-to-write on the servers (Redis 7.0 or later)",
        _ => "use `min_replicas`",
    };
    report.doubtful(
        "role",
        format!(
            "{text}: a failover may forget who holds what; {advice} and check fencing tokens, or \
             use independent masters"
        ),
    );
}

fn memory(info: Info<'_>, report: &mut Report) {
    let (used, most) = (info.number("used_memory"), info.number("maxmemory"));
    let policy = info.field("maxmemory_policy").unwrap_or("unknown");
    let advice = "set maxmemory-policy noeviction";
    match policy {
        "noeviction" if most > 0 && used > most / 10 * 9 => report.doubtful(
            "memory",
            format!("{} % of maxmemory are used: soon no lock can be taken", used * 100 / most),
        ),
        "noeviction" => report.good("memory", "noeviction: locks are not evicted"),
        policy if most > 0 => report.bad(
            "memory",
            format!("{policy} evicts locks that are held when memory is full; {advice}"),
        ),
        policy => report.doubtful(
            "memory",
            format!(
                "{policy} would evict locks that are held, if there were a maxmemory; {advice}"
            ),
        ),
    }
}

async fn persistence(node: &mut Node, info: Info<'_>, topology: &Topology, report: &mut Report) {
    const WHAT: &str = "persistence";
    let failed = |name| info.field(name) == Some("err");
    if failed("aof_last_write_status") || failed("rdb_last_bgsave_status") {
        return report.bad(WHAT, "the server could not save its data; its log says why");
    }
    // A restarted server has no vote, so that it may forget its locks.
    if topology.is_quorum() {
        return report.good(WHAT, "not needed: a server that restarts has no vote for a while");
    }
    let advice = "a restart may forget who holds what: set appendonly yes and appendfsync always, \
                  or use three independent masters";
    if info.field("aof_enabled") != Some("1") {
        return report.doubtful(WHAT, format!("no append-only file; {advice}"));
    }
    let asked = node.query(redis::cmd("CONFIG").arg("GET").arg("appendfsync")).await;
    // RESP3 has a map for settings.
    let found: HashMap<String, String> = asked.unwrap_or_default();
    match found.get("appendfsync").map(String::as_str) {
        Some("always") => report.good(WHAT, "appendfsync always"),
        Some(fsync) => report.doubtful(WHAT, format!("appendfsync {fsync}; {advice}")),
        None => report.doubtful(
            WHAT,
            "an append-only file; appendfsync should be always (unknown without +config|get)",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Grade;
    use super::*;

    fn grade(check: impl Fn(Info<'_>, &mut Report), info: &str) -> (Grade, String) {
        let mut report = Report::of("a");
        check(Info(info), &mut report);
        let finding = report.findings.remove(0);
        (finding.grade, finding.text)
    }

    #[test]
    fn far_servers_need_long_leases_and_several_of_them_longer_ones() {
        for (servers, least) in [(1, "960 ms"), (3, "1.6 s")] {
            let topology = Topology::Masters(vec![String::new(); servers]);
            let mut report = Report::of("a");
            latency(Duration::from_millis(80), &topology, &mut report);
            let text = report.findings.remove(0).text;
            assert!(text.ends_with(&format!("longer than {least}")), "{servers}: {text}");
        }
    }

    #[test]
    fn a_clock_that_is_off_matters_where_another_server_decides_too() {
        let sentinel = Topology::Sentinel { urls: Vec::new(), master: "m".to_owned() };
        for (topology, told) in
            [(masters(3), "no vote"), (masters(1), "a replica"), (sentinel, "a server")]
        {
            let told_of = |offset| {
                let mut report = Report::of("a");
                clock(offset, &topology, &mut report);
                let finding = report.findings.remove(0);
                (finding.grade, finding.text)
            };
            assert_eq!(told_of(0.9), (Grade::Good, "900 ms ahead of this machine's".to_owned()));
            let (grade, text) = told_of(-7_200.0);
            let is_told = text.starts_with("2 h 0 min behind this") && text.contains(told);
            assert!(grade == Grade::Doubtful && is_told, "{text}");
        }
    }

    #[test]
    fn eviction_is_bad_where_it_can_happen() {
        let of = |info| grade(memory, info).0;
        assert_eq!(of("maxmemory:0\r\nmaxmemory_policy:noeviction\r\n"), Grade::Good);
        assert_eq!(of("maxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\n"), Grade::Doubtful);
        assert_eq!(of("maxmemory:9\r\nmaxmemory_policy:volatile-ttl\r\n"), Grade::Bad);
        let full = "used_memory:95\r\nmaxmemory:100\r\nmaxmemory_policy:noeviction\r\n";
        assert_eq!(of(full), Grade::Doubtful);
        let half = "used_memory:50\r\nmaxmemory:100\r\nmaxmemory_policy:noeviction\r\n";
        assert_eq!(of(half), Grade::Good);
    }

    #[test]
    fn old_servers_and_replicas_are_bad() {
        assert_eq!(grade(version, "redis_version:4.0.14\r\n").0, Grade::Bad);
        assert_eq!(grade(version, "redis_version:5.0.14\r\n").0, Grade::Good);
        let valkey = grade(version, "redis_version:7.2.4\r\nvalkey_version:9.1.2\r\n");
        assert_eq!(valkey, (Grade::Good, "Valkey 9.1.2".to_owned()));
        assert_eq!(role_of(&masters(1), "role:slave\r\n").0, Grade::Bad);
        assert_eq!(role_of(&masters(1), "role:master\r\n").0, Grade::Good);
    }

    fn masters(count: usize) -> Topology {
        Topology::Masters(vec!["redis://a".to_owned(); count])
    }

    fn role_of(topology: &Topology, info: &str) -> (Grade, String) {
        grade(|info, report| role(info, topology, report), info)
    }

    #[test]
    fn a_master_that_may_fail_over_is_doubtful() {
        let alone = "role:master\r\nconnected_slaves:0\r\n";
        let followed = "role:master\r\nconnected_slaves:2\r\n";
        assert_eq!(role_of(&masters(1), alone).0, Grade::Good);
        assert_eq!(role_of(&masters(3), followed).0, Grade::Good);
        let (grade, text) = role_of(&masters(1), followed);
        assert!(grade == Grade::Doubtful && text.contains("`min_replicas`"), "{text}");
        let (urls, master) = (vec!["redis://a".to_owned()], "m".to_owned());
        let sentinel = Topology::Sentinel { urls: urls.clone(), master };
        assert_eq!(role_of(&sentinel, alone).0, Grade::Doubtful);
        let (grade, text) = role_of(&Topology::Cluster(urls), alone);
        assert!(grade == Grade::Doubtful && text.contains("min-replicas-to-write"), "{text}");
    }
}
