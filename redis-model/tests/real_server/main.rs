//! The model against a real server: random calls of the scripts that ship go to both, and every
//! reply and the whole keyspace, expiry included, must be the same.
//!
//! Time passes in the same steps for both. On the real server each millisecond of a lease lasts
//! 100 seconds (`stretch.lua`), so that nothing ends but what a step ends, and `TIME` is a key.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod pair;
mod steps;

use fastrand::Rng;
use fault_kit::Server;

use pair::Pair;
use steps::step;

const SEQUENCES: u64 = 60;
const STEPS: usize = 100;

#[tokio::test]
async fn the_model_answers_what_a_real_server_answers() {
    let server = Server::builder().acl(pair::USER).start().await;
    let mut tally = pair::Tally::default();
    for seed in 0..SEQUENCES {
        let mut random = Rng::with_seed(seed);
        let mut pair = Pair::new(&server, seed % 6 == 5, seed % 3 == 1).await;
        for number in 0..STEPS {
            step(&mut pair, &mut random, &format!("seed {seed}, step {number}")).await;
        }
        tally = tally.plus(pair.tally);
    }
    // Most kinds of answers were there to be compared.
    let least = SEQUENCES;
    assert!(tally.granted > least && tally.refused > least, "{tally:?}");
    // Nothing is published on the channels to which nobody listens.
    assert!(tally.handed_over > least && tally.told > least / 2, "{tally:?}");
    assert!(tally.failed > least && tally.denied > least, "{tally:?}");
}

/// How replies become values of Lua, and values of Lua become replies.
const VALUES: [&str; 51] = [
    "return 3.99",
    "return -3.99",
    "return 2^53",
    "return '3.99'",
    "return true",
    "return false",
    "return nil",
    "return",
    "return {}",
    "return {1, 2.7, 'x', true, {2, {}}, 4}",
    "return {1, nil, 3}",
    "return {1, false, 3}",
    "return {x = 1}",
    "return {ok = 'GOOD'}",
    "return {err = 'BAD thing'}",
    "return function() end",
    "return redis.status_reply('GOOD')",
    "return redis.error_reply('BAD thing')",
    "return redis.error_reply('-BAD thing')",
    "return redis.error_reply('without')",
    "return {KEYS[1], KEYS[2], KEYS[3] or 'none', ARGV[1], #ARGV, ARGV[2] + 1}",
    "return tostring(redis.call('GET', 'none'))",
    "return redis.call('SET', 'key', 'v')",
    "return redis.call('SET', 'key', 'v').ok",
    "return type(redis.call('DEL', 'none'))",
    "return redis.call('MGET', 'key', 'none')",
    "redis.call('SET', 'key', 1e20) return redis.call('GET', 'key')",
    "redis.call('SET', 'key', 0.1) return redis.call('GET', 'key')",
    "redis.call('SET', 'key', 9007199254740993) return redis.call('GET', 'key')",
    "redis.call('SET', 'key', -7) return redis.call('GET', 'key')",
    "redis.call('SET', 'key', 'v', 'PX', 100000) return redis.call('SET', 'key', 'w', 'NX')",
    "redis.call('SET', 'key', 'v') return redis.call('PTTL', 'key')",
    "redis.call('SET', 'key', 'v', 'PX', 9000) redis.call('SET', 'key', 'w') \
     return redis.call('PTTL', 'key')",
    "redis.call('SET', 'key', 'v', 'PX', 100000) redis.call('SETRANGE', 'key', 0, 'w') \
     return redis.call('PTTL', 'key') > 0",
    "redis.call('SET', 'key', 1234) redis.call('SETRANGE', 'key', '1', '78') \
     return {redis.call('GET', 'key'), redis.call('PTTL', 'key')}",
    "return {redis.call('SETRANGE', 'key', 2, 'ab'), redis.call('GET', 'key')}",
    "return {redis.call('SETRANGE', 'key', 2, ''), redis.call('EXISTS', 'key')}",
    "redis.call('RPUSH', 'key', 'v') return redis.call('SETRANGE', 'key', 0, 'w')",
    "return redis.call('SETRANGE', 'key', -1, 'w')",
    "return redis.call('EXISTS', 'key', 'none', 'key')",
    "redis.call('SET', 'key', 'v') redis.call('PEXPIRE', 'key', 0) return redis.call('GET', 'key')",
    "return redis.call('SET', 'key', 'v', 'PX', 1.5)",
    "return redis.call('PEXPIRE', 'key', '007')",
    "return redis.pcall('SET', 'key', 'v', 'PX', 0).err",
    "return redis.call('LLEN', 'key')",
    "return redis.pcall('LLEN', 'key')",
    "return redis.call('GET')",
    "return redis.call('NOPE')",
    "return redis.call('GET', {})",
    "return redis.call('GET', true)",
    "redis.call('DEL', 'key') redis.call('RPUSH', 'key', 'a', 'b', 'c') \
     return {redis.call('LINDEX', 'key', -1), redis.call('LINDEX', 'key', 7), \
     redis.call('LRANGE', 'key', -2, 9), redis.call('LPOP', 'key'), redis.call('LLEN', 'key')}",
];

#[tokio::test]
async fn values_are_converted_as_a_real_server_converts_them() {
    let server = Server::builder().acl(pair::USER).start().await;
    let mut pair = Pair::new(&server, false, false).await;
    for text in VALUES {
        pair.evaluate(text).await;
    }
}

/// A script that forgets a `local` fails on both.
#[tokio::test]
async fn globals_are_protected() {
    let server = Server::builder().acl(pair::USER).start().await;
    let model = &mut redis_model::Server::new([]);
    for text in ["forgotten = 1", "return forgotten", "forgotten()"] {
        server.raw().try_cmd(&["EVAL", text, "0"]).await.expect_err(text);
        let reply = model.execute(&[b"EVAL", text.as_bytes(), b"0"]);
        assert!(matches!(reply, redis_model::Reply::Error(_)), "{text}: {reply:?}");
    }
}
