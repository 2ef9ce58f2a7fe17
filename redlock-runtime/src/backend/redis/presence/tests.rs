use super::*;
use crate::backend::redis::scripted::{Scripted, bulk};

fn at(seconds: u64) -> Moment {
    Moment::from_nanos(seconds * 1_000_000_000)
}

fn info(run_id: &str, uptime: u64, history: &str, before: &str) -> String {
    format!(
        "# Server\r\nrun_id:{run_id}\r\nuptime_in_seconds:{uptime}\r\n\
         master_replid:{history}\r\nmaster_replid2:{before}\r\n"
    )
}

fn meet(state: &mut State, info: &str, now: Moment) -> Recall {
    let (identity, uptime) = Identity::parse(info).unwrap();
    state.meet(&identity, uptime, false, now);
    state.recall.clone().unwrap()
}

#[test]
fn a_server_that_lost_nothing_remembers_what_it_did_before_its_restart() {
    let mut state = State::default();
    meet(&mut state, &info("a", 50, "h", "00"), at(100));
    let (identity, uptime) = Identity::parse(&info("b", 3, "i", "00")).unwrap();
    state.meet(&identity, uptime, true, at(130));
    assert_eq!(state.recall.unwrap().since, Moment::ZERO);
}

#[test]
fn a_restart_does_not_mend_what_a_jump_of_the_clock_has_ended() {
    let mut state = State::default();
    meet(&mut state, &info("a", 50, "h", "00"), at(100));
    let cause = Cause::ClockJumped(60_000);
    state.recall = Some(Recall { run_id: "a".into(), since: at(125), cause });
    let (identity, uptime) = Identity::parse(&info("b", 3, "i", "00")).unwrap();
    state.meet(&identity, uptime, true, at(130));
    let recall = state.recall.unwrap();
    assert_eq!((recall.since, recall.cause, &*recall.run_id), (at(125), cause, "b"));
}

#[test]
fn a_server_seen_first_remembers_since_its_start() {
    let mut state = State::default();
    let recall = meet(&mut state, &info("a", 11, "h", "00"), at(100));
    assert_eq!((recall.since, recall.cause), (at(90), Cause::Started));
    // The same one on another connection.
    let again = meet(&mut state, &info("a", 20, "h", "00"), at(109));
    assert_eq!(again, recall);
}

#[test]
fn a_restart_is_another_process_that_is_younger_than_the_last_answer() {
    let mut state = State::default();
    meet(&mut state, &info("a", 50, "h", "00"), at(100));
    state.heard = Some(at(120));
    let recall = meet(&mut state, &info("b", 3, "i", "00"), at(130));
    assert_eq!((recall.since, recall.cause), (at(128), Cause::Restarted));
    assert_eq!(&*recall.run_id, "b");
}

#[test]
fn another_server_in_its_place_remembers_since_it_was_met() {
    let mut state = State::default();
    meet(&mut state, &info("a", 50, "h", "00"), at(100));
    state.heard = Some(at(120));
    let recall = meet(&mut state, &info("b", 5_000, "h", "00"), at(130));
    assert_eq!((recall.since, recall.cause), (at(130), Cause::Replaced));
}

#[test]
fn a_promotion_in_between_begins_a_new_history() {
    let mut state = State::default();
    meet(&mut state, &info("a", 50, "h", "00"), at(100));
    let recall = meet(&mut state, &info("a", 80, "i", "h"), at(130));
    assert_eq!((recall.since, recall.cause), (at(130), Cause::Replaced));
    // A master that lost its last replica begins a new history as well, and forgets nothing.
    let same = meet(&mut state, &info("a", 90, "j", "00"), at(140));
    assert_eq!(same, recall);
}

#[test]
fn a_server_that_does_not_tell_is_not_judged() {
    assert_eq!(Identity::parse("redis_version:7.0.15\r\n"), None);
}

/// A server, seen by a client that knew another one there; and what it was asked.
async fn meet_on_the_wire<const N: usize>(answers: [&str; N]) -> (RedisResult<Presence>, Scripted) {
    let presence = Presence::new("n".to_owned(), Some("roll".into()));
    let (known, uptime) = Identity::parse(&info("a", 50, "h", "00")).unwrap();
    presence.state().meet(&known, uptime, false, CLOCK.now());
    let mut server = Scripted::new(answers);
    let met = presence.meet(&mut server).await;
    (met.map(|()| presence), server)
}

fn cause(met: RedisResult<Presence>) -> Cause {
    met.unwrap().recall().unwrap().cause
}

#[tokio::test]
async fn only_a_server_that_syncs_and_still_has_the_roll_lost_nothing() {
    let young = info("b", 0, "i", "00");
    let (plain, synced) = (bulk(&young), bulk(&format!("{young}aof_enabled:1\r\n")));
    let policy = |word| format!("*2\r\n{}\r\n{}", bulk("appendfsync"), bulk(word));
    let (roll, always, everysec) = (bulk("a b"), policy("always"), policy("everysec"));

    let (met, server) = meet_on_the_wire([&plain]).await;
    assert_eq!((cause(met), server.asked()), (Cause::Restarted, vec!["INFO"]));

    let (met, server) = meet_on_the_wire([&synced, &roll, &always]).await;
    assert_eq!(met.unwrap().recall().unwrap().since, Moment::ZERO);
    assert_eq!(server.asked(), ["INFO", "GET roll", "CONFIG GET appendfsync"]);

    for [roll, policy] in
        [["$-1", &always], [&roll, &everysec], [&roll, "-NOPERM no config"], ["$-1", "*0"]]
    {
        let (met, _) = meet_on_the_wire([&synced, roll, policy]).await;
        assert_eq!(cause(met), Cause::Restarted, "{roll:?} {policy:?}");
    }
    assert!(meet_on_the_wire([&synced, "-LOADING soon"]).await.0.is_err());
}

/// Its locks are as good as those of a client without a guard.
#[tokio::test]
async fn a_user_who_may_not_ask_is_served() {
    assert!(meet_on_the_wire(["-NOPERM no info"]).await.0.is_ok());
    assert!(meet_on_the_wire(["-LOADING soon"]).await.0.is_err());
}

#[tokio::test]
async fn every_new_connection_of_a_guarded_node_is_asked() {
    for roll_key in [None, Some(Arc::from("roll"))] {
        let is_guarded = roll_key.is_some();
        let presence = Arc::new(Presence::new("n".to_owned(), roll_key));
        let source = Scripted::new([&bulk(&info("a", 50, "h", "00"))]);
        let watched = Watched { source, presence: Arc::clone(&presence) };
        let asked = watched.connect().await.unwrap().asked().len();
        assert_eq!((asked, presence.recall().is_some()), (usize::from(is_guarded), is_guarded));
    }
}

#[test]
fn a_clock_that_jumped_is_a_gap_from_that_answer_on() {
    let presence = Presence::new("n".to_owned(), Some("roll".into()));
    let (known, uptime) = Identity::parse(&info("a", 50, "h", "00")).unwrap();
    presence.state().meet(&known, uptime, false, at(100));
    let started = presence.recall().unwrap();
    let sample = |sent, micros| Sample { micros, sent: at(sent), received: at(sent) };
    presence.hear(sample(101, 501_000_000));
    presence.hear(sample(102, 502_000_000));
    assert_eq!(presence.recall().unwrap(), started);
    presence.hear(sample(103, 563_000_000));
    let Recall { run_id, since, cause } = presence.recall().unwrap();
    assert_eq!((&*run_id, since, cause), ("a", at(103), Cause::ClockJumped(60_000)));
    // An answer that was overtaken does not make the last one older.
    presence.hear(sample(102, 562_000_000));
    assert_eq!(presence.state().heard, Some(at(103)));
}

#[test]
fn the_doubt_is_told_and_a_server_seen_first_is_none() {
    let mut state = State::default();
    let mut meet = |info: &str, is_durable, now| {
        let (identity, uptime) = Identity::parse(info).unwrap();
        state.meet(&identity, uptime, is_durable, now)
    };
    assert_eq!(meet(&info("a", 50, "h", "00"), false, at(100)), None);
    assert_eq!(meet(&info("b", 3, "h", "00"), true, at(130)), None);
    assert_eq!(meet(&info("c", 3, "h", "00"), false, at(160)), Some(Cause::Restarted));
    assert_eq!(meet(&info("d", 3, "i", "h"), true, at(190)), Some(Cause::Replaced));
}

/// Born at the moment of the other one's last answer, it cannot have run beside it.
#[test]
fn a_server_as_old_as_the_last_answer_was_started_after_it() {
    for (heard, expected) in
        [(127, Cause::Restarted), (128, Cause::Restarted), (129, Cause::Replaced)]
    {
        let mut state = State::default();
        meet(&mut state, &info("a", 50, "h", "00"), at(100));
        state.heard = Some(at(heard));
        let recall = meet(&mut state, &info("b", 3, "i", "00"), at(130));
        assert_eq!(recall.cause, expected, "{heard}");
    }
}
