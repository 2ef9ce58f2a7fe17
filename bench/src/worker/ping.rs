//! A round trip: `PING` on one bare connection, one after the other or with pauses between.

use std::time::Duration;

use redis::Client;

use super::pipelined::seconds_since;
use super::run::{say, wait_for_go};
use super::timer;
use crate::Failure;
use crate::histogram::Recorder;
use crate::monotonic;
use crate::plan::{Answer, Plan, Tally};

pub async fn measure(plan: &Plan) -> Result<Answer, Failure> {
    let mut connection =
        Client::open(plan.url.as_str())?.get_multiplexed_async_connection().await?;
    let pause = Duration::from_secs_f64(plan.body_ms / 1e3);
    redis::cmd("PING").exec_async(&mut connection).await?;
    say("ready");
    wait_for_go().await?;
    let (mut tally, mut recorder) = (Tally::default(), Recorder::new());
    let mut pauses = Recorder::new();
    let begin = monotonic::now();
    while seconds_since(begin) < plan.seconds {
        let paused_at = monotonic::now();
        match plan.is_open {
            _ if pause.is_zero() => {}
            // The body of an open loop, which is measured, too.
            true => timer::sleep(pause).await,
            false => tokio::time::sleep(pause).await,
        }
        let called_at = monotonic::now();
        pauses.count(called_at - paused_at);
        redis::cmd("PING").exec_async(&mut connection).await?;
        recorder.count(monotonic::now() - called_at);
        tally.holds += 1;
    }
    let mut answer = Answer { workers: vec![tally], ..Answer::default() };
    recorder.finish(&mut answer.cycle);
    if plan.is_open {
        pauses.finish(&mut answer.wait);
    }
    Ok(answer)
}
