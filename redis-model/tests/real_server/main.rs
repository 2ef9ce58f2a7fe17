//! The model against a real server: random calls of the scripts that ship go to both, and every
//! reply and the whole keyspace, expiry included, must be the same.
//!
//! Time passes in the same steps for both. On the real server each millisecond of a lease lasts
//! 100 seconds (`stretch.lua`), so that nothing ends but what a step ends, and `TIME` is a key.
#![allow(missing_docs)]

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
        let mut pair = Pair::new(&server, seed % 6 == 5).await;
        for number in 0..STEPS {
            step(&mut pair, &mut random, &format!("seed {seed}, step {number}")).await;
        }
        tally = tally.plus(pair.tally);
    }
    // Most kinds of answers were there to be compared.
    let least = SEQUENCES * 5;
    assert!(tally.granted > least && tally.refused > least, "{tally:?}");
    assert!(tally.handed_over > least && tally.failed > least, "{tally:?}");
    assert!(tally.told > least / 5 && tally.denied > least / 5, "{tally:?}");
}
