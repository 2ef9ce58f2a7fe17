//! What stands behind a lock and is no number that fencing tokens can follow: each command says
//! which key it is, and changes nothing. On a model of a server that runs the shipped scripts.

use std::num::NonZeroU32;
use std::time::Duration;

use redis_model::{Script, Server};

use crate::backend::simulated::{self, SimulatedCall, SimulatedReply};
use crate::backend::{Claim, Found};
use crate::fencing::FencingToken;
use crate::key::LockKey;
use crate::kind::Kind;
use crate::owner::Owner;

const ODD: [&str; 7] = ["nan", "-nan", "inf", "many", "", "9007199254740991", "9007199254740992"];
const TOKEN: u64 = 1_795_000_000_000_000;
const LARGEST: u64 = (1 << 53) - 1;

fn server(contents: &[(&str, &str)]) -> Server {
    let mut server = Server::new(simulated::scripts().map(Script::new));
    server.set_clock(TOKEN - 1, (TOKEN - 1) / 1000);
    for (key, text) in contents {
        server.execute(&[b"SET", key.as_bytes(), text.as_bytes()]);
    }
    server
}

fn claim(kind: Kind) -> Claim {
    let key = LockKey::new("lock:", "{k}").unwrap();
    Claim { key, owner: Owner::of_nobody("test"), expire: Duration::from_secs(9), kind }
}

/// What each key of the server holds.
fn texts(server: &Server) -> Vec<String> {
    let keys = server.keyspace();
    let text = |key: &[u8]| {
        format!("{} {:?}", String::from_utf8_lossy(key), keys.get(key).zip(keys.ends(key)))
    };
    keys.keys().map(text).collect()
}

/// `key` is named, and nothing has changed.
fn is_refused<T: 'static>(server: &mut Server, call: &SimulatedCall<T>, key: &str) -> bool {
    let before = texts(server);
    let SimulatedReply::Error(error) = call.ask(server, true) else { return false };
    error.message().contains("FENCE") && error.message().contains(key) && texts(server) == before
}

#[test]
fn no_lock_is_taken_behind_what_is_no_number() {
    let permits = Kind::Permits(NonZeroU32::new(2).unwrap());
    for odd in ODD {
        for kind in [Kind::Exclusive, Kind::Read, permits] {
            let claim = claim(kind);
            for key in [claim.key.mark_key(), claim.key.counter_key()] {
                let server = &mut server(&[(&key, odd)]);
                let acquire = simulated::acquire(&claim);
                assert!(is_refused(server, &acquire, &key), "{kind:?} behind {key} {odd:?}");
                let enqueue = simulated::enqueue(&claim, 1, None);
                assert!(is_refused(server, &enqueue, &key), "queued {kind:?} behind {key} {odd:?}");
            }
        }
    }
}

#[test]
fn neither_are_several_nor_those_of_a_batch() {
    for odd in ODD {
        let claims = [claim(Kind::Exclusive)];
        for key in [claims[0].key.mark_key(), claims[0].key.counter_key()] {
            let server = &mut server(&[(&key, odd)]);
            let all = simulated::acquire_all(&claims);
            assert!(is_refused(server, &all, &key), "behind {key} {odd:?}");
            let before = texts(server);
            let (_, answers) = simulated::ask_batch(server, &[], &[simulated::acquire(&claims[0])]);
            assert_eq!((answers, texts(server)), (vec![None], before), "behind {key} {odd:?}");
        }
    }
}

/// A counter is lifted where it is no number; a mark has been behind other locks, too.
#[test]
fn nobody_is_told_that_a_token_was_raised_where_it_was_not() {
    let fencing_token = FencingToken::new(TOKEN).unwrap();
    for odd in ["nan", "-nan", "many", ""] {
        for kind in [Kind::Exclusive, Kind::Read] {
            let claim = claim(kind);
            let [mark, counter] = [claim.key.mark_key(), claim.key.counter_key()];
            let server = &mut server(&[]);
            let SimulatedReply::Answer(_) = simulated::acquire(&claim).ask(server, true) else {
                panic!("it is free")
            };
            let raise = simulated::raise(&claim, fencing_token);
            server.execute(&[b"SET", counter.as_bytes(), odd.as_bytes()]);
            let SimulatedReply::Answer(Found::Ours) = raise.ask(server, true) else {
                panic!("behind the counter {odd:?}")
            };
            let shown = texts(server).join(";");
            assert!(!shown.contains(odd) || odd.is_empty(), "{shown}");
            server.execute(&[b"SET", mark.as_bytes(), odd.as_bytes()]);
            assert!(is_refused(server, &raise, &mark), "{kind:?} behind the mark {odd:?}");
        }
    }
}

/// Its tokens would be above the largest one, and the mark would keep the slot from all others long
/// after the clock is right again.
#[test]
fn no_lock_is_taken_by_a_clock_beyond_the_last_token() {
    for micros in [LARGEST + 1, LARGEST + 1_000_000, 253_402_300_000_000_000] {
        for kind in [Kind::Exclusive, Kind::Read] {
            let (server, claim) = (&mut server(&[]), claim(kind));
            server.set_clock(micros, micros / 1000);
            let mark = claim.key.mark_key();
            assert!(is_refused(server, &simulated::acquire(&claim), &mark), "{kind:?} at {micros}");
            let enqueue = simulated::enqueue(&claim, 1, None);
            assert!(is_refused(server, &enqueue, &mark), "queued {kind:?} at {micros}");
        }
        let (server, claims) = (&mut server(&[]), [claim(Kind::Exclusive)]);
        server.set_clock(micros, micros / 1000);
        let (_, answers) = simulated::ask_batch(server, &[], &[simulated::acquire(&claims[0])]);
        assert_eq!((answers, texts(server)), (vec![None], vec![]), "a batch at {micros}");
        let all = simulated::acquire_all(&claims);
        assert!(is_refused(server, &all, &claims[0].key.mark_key()), "several at {micros}");
    }
}

/// A board without a clock of its own boots in 1970, with no mark.
#[test]
fn locks_are_granted_in_the_first_hour_of_1970() {
    for micros in [0, 1, 7, 600_000_000, 600_000_005, 3_599_999_999, 3_600_000_000] {
        for kind in [Kind::Exclusive, Kind::Read] {
            let (server, claim) = (&mut server(&[]), claim(kind));
            server.set_clock(micros, micros / 1000);
            let granted = simulated::acquire(&claim).ask(server, true);
            assert!(matches!(granted, SimulatedReply::Answer(_)), "{kind:?} at {micros} us");
        }
    }
}
