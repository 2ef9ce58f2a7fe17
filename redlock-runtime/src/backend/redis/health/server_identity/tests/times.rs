//! Since when a server remembers, by the order of what was heard of it.

use deadpool_redis::redis::{Arg, Cmd, RedisFuture, Value};

use super::*;
use crate::backend::redis::connection::single_commands;

fn watched(state: &mut IdentityState, run_id: &str, seconds: u64, now: u64) -> Moment {
    let identity = identity(&info(run_id, "h", "00"));
    state.meet(&identity, Proof::Watched(secs(seconds)), None, at(now));
    state.memory_since.as_ref().unwrap().since
}

/// Answers come in any order.
#[test]
fn a_server_is_believed_to_have_been_watched_since_another_one_was_heard_last() {
    let presence = ServerIdentity::new("n".to_owned(), Some("founders".into()));
    meet(&mut presence.state.lock(), &info("a", "h", "00"), at(100));
    meet(&mut presence.state.lock(), &info("b", "h", "00"), at(130));
    presence.hear(Sample { micros: 590_000_000, sent: at(180), received: at(190) });
    presence.hear(sample(150, 555_000_000));
    assert_eq!(watched(&mut presence.state.lock(), "a", 15, 200), at(200));
    // It was met, and not heard since then.
    assert_eq!(watched(&mut presence.state.lock(), "b", 20, 210), at(210));
    assert_eq!(watched(&mut presence.state.lock(), "a", 5, 220), at(215));
}

/// A server that records when the client asks it for the list.
struct ReadLate {
    server: Scripted,
    read: Moment,
}

impl ConnectionLike for ReadLate {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        if matches!(command.args_iter().next(), Some(Arg::Simple(b"GET"))) {
            let told = CLOCK.now();
            while self.read <= told {
                self.read = CLOCK.now();
            }
        }
        self.server.req_packed_command(command)
    }

    single_commands!();
}

/// Others may have noted it long after the server told who it is.
#[tokio::test]
async fn how_long_others_have_watched_a_server_counts_from_the_reading_of_their_note() {
    let presence = ServerIdentity::new("n".to_owned(), Some("founders".into()));
    let server = Scripted::new([&bulk(&info("a", "h", "00")), &bulk("c a=1000")]);
    let mut server = ReadLate { server, read: Moment::ZERO };
    presence.meet(&mut server, presence.begin()).await.unwrap();
    assert!(presence.memory_since().unwrap().since >= server.read.minus(secs(1)));
}

/// It tells its time on each new connection.
#[tokio::test]
async fn a_process_that_answered_a_new_connection_after_another_was_met_has_no_heir() {
    for (again, cause) in [(7_999, Cause::Started), (8_000, Cause::Restarted)] {
        let presence = ServerIdentity::new("n".to_owned(), Some("founders".into()));
        for (run_id, shown) in [("a", 1), ("a", again), ("b", 9_000)] {
            let told = format!("{}server_time_usec:{shown}\r\n", info(run_id, "h", "00"));
            let mut server = Scripted::new([&bulk(&told), &bulk("a b=70000 b=^a:8")]);
            presence.meet(&mut server, presence.begin()).await.unwrap();
        }
        assert_eq!(presence.memory_since().unwrap().cause, cause);
    }
}

#[test]
fn the_latest_time_that_a_clock_has_shown_is_kept() {
    let mut state = IdentityState::default();
    let last = [Some(8), Some(5), None, Some(9), None].map(|shown| state.shows(shown));
    assert_eq!(last, [None, Some(8), Some(8), Some(8), Some(9)]);
}

/// Who heard the former process later must not be told an earlier time than this.
#[test]
fn a_process_is_followed_when_the_clock_of_the_next_one_shows_the_least_it_can() {
    let mut state = IdentityState::default();
    let followed = |state: &IdentityState, shown| {
        state.followed("a".into(), shown, at(102)).map(|former| former.followed_at)
    };
    assert_eq!(followed(&state, None), None);
    state.offset.observe(Sample { micros: 50_000_000, sent: at(100), received: at(102) });
    // Less 2 ms of drift.
    assert_eq!(followed(&state, None), Some(49_998));
    assert_eq!(followed(&state, Some(51_000_999)), Some(51_000));
}

#[test]
fn a_jump_of_the_clock_from_before_others_began_to_watch_the_data_is_over() {
    let mut state = IdentityState::default();
    meet(&mut state, &info("a", "h", "00"), at(100));
    state.jumped(at(125), 60_000);
    let proof = Proof::Durable(Some(secs(40)));
    state.meet(&identity(&info("b", "i", "00")), proof, None, at(200));
    let memory_since = state.memory_since.unwrap();
    assert_eq!((memory_since.since, memory_since.cause), (at(160), Cause::Started));
}

#[test]
fn a_clock_that_jumped_while_an_answer_was_under_way_is_a_gap_until_the_answer_came() {
    let presence = ServerIdentity::new("n".to_owned(), Some("founders".into()));
    meet(&mut presence.state.lock(), &info("a", "h", "00"), at(100));
    presence.hear(sample(101, 501_000_000));
    presence.hear(Sample { micros: 563_000_000, sent: at(103), received: at(104) });
    assert_eq!(presence.memory_since().unwrap().since, at(104));
}

/// Two connections meet it at once.
#[test]
fn a_promoted_server_that_is_met_again_was_not_promoted_again() {
    let mut state = IdentityState::default();
    let promoted = info("a", "i", "h");
    let met = meet(&mut state, &promoted, at(100));
    assert_eq!(meet(&mut state, &promoted, at(109)), met);
}

/// Without a guard, when a failover has left it behind.
#[test]
fn a_connection_to_a_server_that_was_left_does_not_say_that_the_address_has_moved() {
    let mut state = IdentityState::default();
    let [first, left] = [100, 101].map(|second| state.counting.begin(at(second)));
    assert_eq!(state.recognize("a", &first, at(101)), None);
    state.counting.leave(at(101));
    assert_eq!(state.recognize("b", &left, at(102)), None);
    assert_eq!(state.moved, None);
}
