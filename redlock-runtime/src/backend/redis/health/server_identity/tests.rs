mod left;
mod times;

use super::*;
use crate::backend::redis::connection::{IdentifiedSource, Scripted, bulk, diagnose};
use crate::error::NodeErrorKind;

fn at(seconds: u64) -> Moment {
    Moment::from_nanos(seconds * 1_000_000_000)
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn sample(sent: u64, micros: i64) -> Sample {
    Sample { micros, sent: at(sent), received: at(sent) }
}

/// An INFO answer with an uptime that must not be trusted.
fn info(run_id: &str, history: &str, before: &str) -> String {
    format!(
        "# Server\r\nrun_id:{run_id}\r\nuptime_in_seconds:7199\r\n\
         master_replid:{history}\r\nmaster_replid2:{before}\r\n"
    )
}

fn identity(info: &str) -> Identity {
    Identity::parse(info).unwrap()
}

/// Meets a server about which nothing can be proved.
fn meet(state: &mut IdentityState, info: &str, now: Moment) -> MemorySince {
    state.meet(&identity(info), Proof::Nothing, None, now);
    state.memory_since.clone().unwrap()
}

#[test]
fn a_server_that_lost_nothing_remembers_what_it_did_before_its_restart() {
    for (watched_for, since) in [(None, Moment::ZERO), (Some(secs(40)), at(90))] {
        let mut state = IdentityState::default();
        meet(&mut state, &info("a", "h", "00"), at(100));
        let b = identity(&info("b", "i", "00"));
        state.meet(&b, Proof::Durable(watched_for), Some(7_999), at(130));
        let memory_since = state.memory_since.unwrap();
        assert_eq!(memory_since.since, since);
        let former = Predecessor { run_id: "a".into(), followed_at: 7 };
        assert_eq!(memory_since.heir_of, Some(former));
        // A jump of its clock is not known to those who knew the former process only.
        assert_eq!(memory_since.doubted(at(140), Cause::ClockJumped(60_000)).heir_of, None);
    }
}

#[test]
fn a_restart_does_not_mend_what_a_jump_of_the_clock_has_ended() {
    let mut state = IdentityState::default();
    meet(&mut state, &info("a", "h", "00"), at(100));
    let cause = Cause::ClockJumped(60_000);
    state.memory_since = state.memory_since.take().map(|known| known.doubted(at(125), cause));
    state.meet(&identity(&info("b", "i", "00")), Proof::Durable(None), None, at(130));
    let memory_since = state.memory_since.unwrap();
    assert_eq!(
        (memory_since.since, memory_since.cause, &*memory_since.run_id),
        (at(125), cause, "b")
    );
    assert_eq!(memory_since.kept_since, at(100), "nor does it take away what that has left");
}

/// The server counts its uptime by a clock that may have been off.
#[test]
fn a_server_met_first_remembers_since_then_whatever_its_uptime() {
    let mut state = IdentityState::default();
    let memory_since = meet(&mut state, &info("a", "h", "00"), at(100));
    assert_eq!((memory_since.since, memory_since.cause), (at(100), Cause::Started));
    // The same server on another connection.
    let again = meet(&mut state, &info("a", "h", "00"), at(109));
    assert_eq!(again, memory_since);
}

#[test]
fn a_server_that_others_have_watched_remembers_for_as_long() {
    let mut state = IdentityState::default();
    let watched = || Proof::Watched(secs(70));
    assert_eq!(state.meet(&identity(&info("a", "h", "00")), watched(), None, at(100)), None);
    assert_eq!(state.memory_since.as_ref().unwrap().since, at(30));
    let cause = state.meet(&identity(&info("b", "h", "00")), watched(), None, at(200));
    assert_eq!((cause, state.memory_since.unwrap().since), (Some(Cause::Restarted), at(130)));
}

/// An address that moves to another server and back, while the first one lives on.
#[test]
fn a_server_is_not_believed_to_have_been_watched_while_another_one_answered() {
    let mut state = IdentityState::default();
    meet(&mut state, &info("a", "h", "00"), at(100));
    meet(&mut state, &info("b", "h", "00"), at(130));
    state.heard = at(190);
    let watched = Proof::Watched(secs(100));
    let cause = state.meet(&identity(&info("a", "h", "00")), watched, None, at(200));
    assert_eq!((cause, state.memory_since.unwrap().since), (Some(Cause::Restarted), at(200)));
}

#[test]
fn a_restart_is_another_process() {
    let mut state = IdentityState::default();
    meet(&mut state, &info("a", "h", "00"), at(100));
    let memory_since = meet(&mut state, &info("b", "i", "00"), at(130));
    assert_eq!((memory_since.since, memory_since.cause), (at(130), Cause::Restarted));
    assert_eq!(&*memory_since.run_id, "b");
}

#[test]
fn a_promotion_in_between_begins_a_new_history() {
    let mut state = IdentityState::default();
    meet(&mut state, &info("a", "h", "00"), at(100));
    let memory_since = meet(&mut state, &info("a", "i", "h"), at(130));
    assert_eq!((memory_since.since, memory_since.cause), (at(130), Cause::Replaced));
    // What clients saw before the promotion is noted under another name.
    assert_eq!(&*memory_since.run_id, "a/i");
    // A master that lost its last replica begins a new history as well, and forgets nothing.
    // Its name is that of a process that was never promoted then.
    let same = meet(&mut state, &info("a", "j", "00"), at(140));
    assert_eq!(same, MemorySince { run_id: "a".into(), ..memory_since });
    let other = meet(&mut state, &info("b", "k", "h"), at(150));
    assert_eq!((other.since, other.cause), (at(150), Cause::Replaced));
}

/// It may have been a founder of its new name before it was promoted, with other data.
#[test]
fn a_promoted_server_is_no_founder_when_its_history_is_given_up() {
    let mut state = IdentityState::default();
    let met = meet(&mut state, &info("a", "i", "h"), at(100));
    assert_eq!((&*met.run_id, met.cause), ("a/i", Cause::Started));
    let later = meet(&mut state, &info("a", "j", "00"), at(101));
    let MemorySince { run_id, since, cause, .. } = later;
    assert_eq!((&*run_id, since, cause), ("a", at(100), Cause::Replaced));
}

#[test]
fn a_server_that_does_not_tell_is_not_understood() {
    for info in ["redis_version:7.0.15\r\nuptime_in_seconds:9\r\n", "run_id:\r\n", ""] {
        assert_eq!(Identity::parse(info), None, "{info}");
    }
}

/// Meets a server in the place of another one that the client knew. Returns the commands as well.
async fn meet_on_the_wire<const N: usize>(
    answers: [&str; N],
) -> (RedisResult<ServerIdentity>, Scripted) {
    let presence = ServerIdentity::new("n".to_owned(), Some("founders".into()));
    let hour_ago = CLOCK.now().minus(secs(3600));
    presence.state.lock().meet(&identity(&info("a", "h", "00")), Proof::Nothing, None, hour_ago);
    presence.hear(Sample { micros: 7_999, sent: hour_ago, received: hour_ago });
    let mut server = Scripted::new(answers);
    let met = presence.meet(&mut server, presence.begin()).await;
    (met.map(|_| presence), server)
}

#[tokio::test]
async fn a_server_that_does_not_tell_is_told_what_it_lacks() {
    let (met, _) = meet_on_the_wire([&bulk("uptime_in_seconds:9")]).await;
    let text = diagnose("n", &met.unwrap_err()).error.to_string();
    assert!(text.contains("a restart would not be noticed"), "{text}");
    assert!(text.contains("`run_id`"), "{text}");
    // The command line tool leaves this out, word for word.
    let advice = " (or build the client without the guard: `restart_guard(false)`)";
    assert!(text.ends_with(advice), "{text}");
}

fn memory_since(met: RedisResult<ServerIdentity>) -> MemorySince {
    met.unwrap().memory_since().unwrap()
}

#[tokio::test]
async fn only_a_server_that_syncs_and_still_has_the_roll_lost_nothing() {
    let young = info("b", "i", "00");
    let (plain, synced) = (bulk(&young), bulk(&format!("{young}aof_enabled:1\r\n")));
    let promoted = bulk(&format!("{}aof_enabled:1\r\n", info("b", "i", "h")));
    let settings = |always, rewrite| {
        let words = ["no-appendfsync-on-rewrite", rewrite, "appendfsync", always].map(bulk);
        format!("*4\r\n{}", words.join("\r\n"))
    };
    let (founders, always) = (bulk("a b"), settings("always", "no"));

    let (met, server) = meet_on_the_wire([&plain, &founders]).await;
    assert_eq!(
        (memory_since(met).cause, server.asked()),
        (Cause::Restarted, vec!["INFO", "GET founders"])
    );

    let (met, server) = meet_on_the_wire([&synced, &founders, &always]).await;
    assert_eq!(memory_since(met).since, Moment::ZERO);
    assert_eq!(server.asked(), ["INFO", "GET founders", "CONFIG GET *appendfsync*"]);
    // In RESP3, a map.
    let map = always.replacen("*4", "%2", 1);
    let (met, _) = meet_on_the_wire([&synced, &founders, &map]).await;
    assert_eq!(memory_since(met).since, Moment::ZERO);

    for [info, founders, settings] in [
        [&synced, "$-1", &always],
        [&synced, &founders, &settings("everysec", "no")],
        // The server does not sync while it rewrites its log.
        [&synced, &founders, &settings("always", "yes")],
        [&synced, &founders, "-NOPERM no config"],
        [&synced, &founders, "*0"],
        // The server has kept the data of another server.
        [&synced, &bulk("c d"), &always],
        [&promoted, &founders, &always],
    ] {
        let (met, _) = meet_on_the_wire([info, founders, settings]).await;
        assert_ne!(memory_since(met).cause, Cause::Started, "{info:?} {founders:?} {settings:?}");
    }
    assert!(meet_on_the_wire([&synced, "-LOADING soon"]).await.0.is_err());
}

#[tokio::test]
async fn what_others_have_watched_counts_for_the_process_that_they_named() {
    let plain = bulk(&info("b", "i", "00"));
    let begun = CLOCK.now();
    let (met, _) = meet_on_the_wire([&plain, &bulk("a c b=70000")]).await;
    assert!(memory_since(met).since < begun);
    let (met, _) = meet_on_the_wire([&plain, &bulk("a c a=70000")]).await;
    assert!(memory_since(met).since >= begun);
    // By a client that knew both processes, and found that all data were kept.
    let (met, server) = meet_on_the_wire([&plain, &bulk("a c b=70000 b=^a:8")]).await;
    let heir = memory_since(met);
    assert_eq!(heir.cause, Cause::Started);
    assert!(heir.since < begun.minus(secs(69)) && server.asked() == ["INFO", "GET founders"]);
    for founders in [
        "a c b=70000 b=^c:8",
        "a c b=70000 c=^a:8",
        "a c c=70000 c=^a:8",
        // The former process still answered this client when another one had met the later one.
        "a c b=70000 b=^a:7",
    ] {
        let (met, _) = meet_on_the_wire([&plain, &bulk(founders)]).await;
        assert_eq!(memory_since(met).cause, Cause::Restarted, "{founders}");
    }
    // The data from before the restart are as old as they were then.
    let synced = bulk(&format!("{}aof_enabled:1\r\n", info("b", "i", "00")));
    let settings = ["appendfsync", "always", "no-appendfsync-on-rewrite", "no"].map(bulk);
    let settings = format!("*4\r\n{}", settings.join("\r\n"));
    let (met, _) = meet_on_the_wire([&synced, &bulk("a c a=0"), &settings]).await;
    assert!(memory_since(met).since >= begun);
}

/// A restart of it would not be noticed.
#[tokio::test]
async fn a_server_that_cannot_be_identified_is_not_used() {
    assert_eq!(meet_on_the_wire(["-NOPERM no info"]).await.0.unwrap_err().code(), Some("NOPERM"));
    let silent = bulk("redis_version:7.0.15\r\nuptime_in_seconds:9999\r\n");
    let error = meet_on_the_wire([&silent]).await.0.unwrap_err();
    assert!(error.to_string().contains("+info"), "{error}");
    assert!(meet_on_the_wire(["-LOADING soon"]).await.0.is_err());
}

/// It is empty, or has the data of another server. Its promotion shows on the next connection.
#[tokio::test]
async fn a_connection_to_a_replica_is_not_used() {
    let synced = bulk(&format!("{}role:slave\r\n", info("a", "m", "00")));
    let presence = ServerIdentity::new("n".to_owned(), Some("founders".into()));
    assert!(presence.meet(&mut Scripted::new([&synced]), presence.begin()).await.is_err());
    assert_eq!(presence.memory_since(), None, "it has granted nothing to this client");
    meet(&mut presence.state.lock(), &info("a", "h", "00"), Moment::ZERO);
    let mut replica = Scripted::new([&synced, "$-1"]);
    let found = diagnose("n", &presence.meet(&mut replica, presence.begin()).await.unwrap_err());
    assert_eq!((found.error.node(), found.error.kind()), ("n", NodeErrorKind::ReadOnly));
    assert!(found.error.to_string().contains("`REPLICAOF NO ONE`"), "{}", found.error);
    assert!(!found.is_final && replica.asked() == ["INFO"]);
    // Connections that outlive its promotion do not tell of it.
    let memory_since = presence.memory_since().unwrap();
    assert!(memory_since.cause == Cause::Replaced && memory_since.since > Moment::ZERO);

    let promoted = bulk(&format!("{}role:master\r\n", info("a", "i", "m")));
    presence.meet(&mut Scripted::new([&promoted, "$-1"]), presence.begin()).await.unwrap();
    assert_eq!(presence.memory_since().unwrap().cause, Cause::Replaced);
}

#[tokio::test]
async fn every_new_connection_of_a_guarded_node_is_asked() {
    for founders_key in [None, Some(Arc::from("founders"))] {
        let is_guarded = founders_key.is_some();
        let presence = Arc::new(ServerIdentity::new("n".to_owned(), founders_key));
        let source = Scripted::new([&bulk(&info("a", "h", "00")), "$-1"]);
        let watched = IdentifiedSource::new(source, "n".into(), &presence);
        for questions in [2, 1] {
            let asked = watched.connect().await.unwrap().inner().asked().len();
            assert_eq!(asked, if is_guarded { questions } else { 0 });
            assert_eq!(presence.memory_since().is_some(), is_guarded);
        }
    }
}

#[tokio::test]
async fn a_connection_to_a_server_that_another_one_replaced_is_not_used() {
    let presence = ServerIdentity::new("n".to_owned(), Some("founders".into()));
    let meet = async |info: &str| {
        let mut server = Scripted::new([&bulk(info), "$-1"]);
        presence.meet(&mut server, presence.begin()).await
    };
    let first = meet(&info("a", "h", "00")).await.unwrap();
    let same = meet(&info("a", "h", "00")).await.unwrap();
    // The same process with a new history, and as a master that was promoted.
    meet(&info("a", "i", "h")).await.unwrap();
    assert!(!first.superseded.is_set() && !same.superseded.is_set());
    let second = meet(&info("b", "h", "00")).await.unwrap();
    assert!(first.superseded.is_set() && same.superseded.is_set() && !second.superseded.is_set());
    meet(&format!("{}role:slave\r\n", info("b", "h", "00"))).await.unwrap_err();
    assert!(second.superseded.is_set());
    let third = meet(&info("b", "h", "00")).await.unwrap();
    assert!(!third.superseded.is_set());
    assert_eq!(
        [&first, &second, &third].map(|met| met.run_id.as_deref().unwrap()),
        ["a", "b", "b"]
    );
    assert!(first.begun < second.begun);
    // Its promotion makes no other process of it.
    meet(&info("b", "i", "h")).await.unwrap();
    assert_eq!(presence.run_id().as_deref(), Some("b"));
}

/// Ages of connections, and when the answers come.
#[test]
fn without_a_guard_older_connections_are_left_when_the_address_has_moved() {
    let mut state = IdentityState::default();
    let begin = |state: &IdentityState, second| state.counting.begin(at(second));
    let [first, second] = [100, 101].map(|second| begin(&state, second));
    assert_eq!(state.recognize("a", &first, at(102)), None);
    assert_eq!(state.recognize("a", &second, at(102)), None);
    assert!(!first.is_set() && !second.is_set(), "the same process");
    // The answer about the newer one of two connections comes first.
    let [third, fourth] = [103, 104].map(|second| begin(&state, second));
    assert_eq!(state.recognize("b", &fourth, at(105)), None);
    assert!(first.is_set() && second.is_set() && !third.is_set() && !fourth.is_set());
    assert_eq!(state.recognize("a", &third, at(105)), None);
    assert!(third.is_set() && !fourth.is_set());
    // An older one to another process, which nobody had asked before.
    let [fifth, sixth] = [106, 107].map(|second| begin(&state, second));
    assert_eq!(state.recognize("b", &sixth, at(108)), None);
    assert_eq!(state.recognize("a", &fifth, at(108)), None);
    assert!(fifth.is_set() && !sixth.is_set());
    // Two connections that are made after a restart both lead to the new process.
    let [seventh, eighth] = [108, 109].map(|second| begin(&state, second));
    assert_eq!(state.recognize("c", &eighth, at(110)), None);
    assert_eq!(state.recognize("c", &seventh, at(110)), None);
    assert_eq!(state.first.as_deref(), Some("a"));
    assert!(sixth.is_set() && !seventh.is_set() && !eighth.is_set());
}

/// Behind an address that leads to two servers in turn, connections are not made without end.
#[test]
fn an_address_that_moves_back_and_forth_is_followed_once_a_second() {
    let mut state = IdentityState::default();
    let millis = |millis: u64| Moment::from_nanos(millis * 1_000_000);
    let first = state.counting.begin(millis(0));
    assert_eq!(state.recognize("a", &first, millis(0)), None);
    let mut moves = 0;
    let mut current = first;
    for (n, now) in (1_u64..).zip((10..=10_000).step_by(10)) {
        let next = state.counting.begin(millis(now));
        let pause = state.recognize(if n % 2 == 0 { "a" } else { "b" }, &next, millis(now));
        assert!(pause.is_none_or(|pause| pause <= MOVES_AGAIN));
        if current.is_set() {
            (moves, current) = (moves + 1, next);
        }
    }
    assert!((9..=10).contains(&moves), "{moves}");
}

#[test]
fn a_clock_that_jumped_is_a_gap_from_that_answer_on() {
    let presence = ServerIdentity::new("n".to_owned(), Some("founders".into()));
    presence.state.lock().meet(&identity(&info("a", "h", "00")), Proof::Nothing, None, at(100));
    let started = presence.memory_since().unwrap();
    presence.hear(sample(101, 501_000_000));
    presence.hear(sample(102, 502_000_000));
    assert_eq!(presence.memory_since().unwrap(), started);
    presence.hear(sample(103, 563_000_000));
    let MemorySince { run_id, since, cause, kept_since, .. } = presence.memory_since().unwrap();
    assert_eq!((&*run_id, since, cause), ("a", at(103), Cause::ClockJumped(60_000)));
    assert_eq!(kept_since, at(100));
}

#[test]
fn a_clock_that_wobbles_is_told_once_a_minute() {
    let mut state = IdentityState::default();
    let told: Vec<_> = [100, 101, 102, 159, 160, 230].map(|now| state.tells_jump(at(now))).into();
    assert_eq!(told, [Some(0), None, None, None, Some(3), Some(0)]);
}

#[test]
fn the_doubt_is_told_and_a_server_seen_first_is_none() {
    let mut state = IdentityState::default();
    let mut meet = |info: &str, proof, now| state.meet(&identity(info), proof, None, now);
    assert_eq!(meet(&info("a", "h", "00"), Proof::Nothing, at(100)), None);
    assert_eq!(meet(&info("b", "h", "00"), Proof::Durable(None), at(130)), None);
    assert_eq!(meet(&info("c", "h", "00"), Proof::Nothing, at(160)), Some(Cause::Restarted));
    assert_eq!(meet(&info("d", "i", "h"), Proof::Nothing, at(190)), Some(Cause::Replaced));
}
