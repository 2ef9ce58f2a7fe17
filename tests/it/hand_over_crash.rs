//! Processes that die or freeze while they wait in the queue, when a lock is handed to them, while
//! they hold it, and while they give it away. What must hold all the time: one holder, growing
//! fencing tokens, and nobody who waits for longer than the dead can make them.

use std::time::Instant;

use tokio::task::JoinSet;

use crate::busy;
use crate::hand_over_crew::Crew;
use crate::server_queue::{HEAD, QUICK_RELEASE, RELEASE, ROTATE};
use crate::support::proxy::Then;
use crate::support::{Server, ms};

const CREWS: usize = 4;
const ROUNDS: usize = 16;
/// One kill of each kind in each round.
const KINDS: usize = 4;
/// Rounds with freezes, too.
const FREEZES_EVERY: usize = 4;

/// How a command that gives a lock away meets the end of its process: it never arrives, arrives
/// late, or was done and not answered.
fn ends(round: usize) -> Then {
    match round / 2 % 3 {
        0 => Then::LoseRequest,
        1 => Then::DelayRequest(ms(50)),
        _ => Then::LoseReply,
    }
}

async fn crash(crew: &mut Crew<'_>, round: usize) {
    // Both locks in turns, so that the dead of one delay the next round little.
    let key = round % 2;
    let script = [[HEAD, ROTATE].concat(), [QUICK_RELEASE, HEAD, RELEASE].concat()];
    crew.kill_in_the_queue(key).await;
    crew.kill_when_called(key, (round / 2).is_multiple_of(2)).await;
    crew.kill_holding(1 - key).await;
    crew.kill_giving_away(key, round, &script[key], ends(round)).await;
    if round.is_multiple_of(FREEZES_EVERY) {
        let key = round / FREEZES_EVERY % 2;
        crew.freeze_when_called(key).await;
        crew.freeze_holding(1 - key).await;
        crew.freeze_giving_away(key, round, &script[key]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn whoever_dies_the_lock_has_one_holder_and_the_line_goes_on() {
    let _turn = busy::turn().await;
    let start = Instant::now();
    let mut crews = JoinSet::new();
    for _ in 0..CREWS {
        crews.spawn(async {
            let server = Server::start().await;
            let mut crew = Crew::start(&server);
            for round in 0..ROUNDS {
                crash(&mut crew, round).await;
            }
            let count = (crew.dead.len(), crew.freezes);
            crew.end().await;
            count
        });
    }
    let ends = crews.join_all().await;
    let kills: usize = ends.iter().map(|(kills, _)| kills).sum();
    let freezes: usize = ends.iter().map(|(_, freezes)| freezes).sum();
    let each = CREWS * ROUNDS;
    eprintln!(
        "{each} killed in each phase, {kills} in all; {freezes} freezes; {:?}",
        start.elapsed()
    );
    assert!(kills >= KINDS * each, "{kills}");
}
