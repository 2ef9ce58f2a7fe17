//! The ceiling of the server: the commands of redlock for many keys in one pipeline, one
//! connection, one task. Nothing but the server's own time is left.

use redis::{Client, Pipeline};

use super::capture::capture;
use super::monotonic;
use super::run::{say, wait_for_go};
use crate::Failure;
use crate::histogram::Recorder;
use crate::plan::{Answer, Plan, Tally};

pub async fn measure(plan: &Plan) -> Result<Answer, Failure> {
    let cycle = capture(&plan.url).await?;
    let mut connection =
        Client::open(plan.url.as_str())?.get_multiplexed_async_connection().await?;
    let (mut acquires, mut releases) = (Pipeline::new(), Pipeline::new());
    for number in 0..plan.tasks {
        let (acquire, behind) = cycle.of(&format!("{}-{number}", plan.key));
        acquires.add_command(acquire).ignore();
        for command in behind {
            releases.add_command(command).ignore();
        }
    }
    let mut both = async || -> Result<(), Failure> {
        acquires.exec_async(&mut connection).await?;
        releases.exec_async(&mut connection).await?;
        Ok(())
    };
    both().await?;
    say("ready");
    wait_for_go().await?;
    let (mut tally, mut recorder) = (Tally::default(), Recorder::new());
    let begin = monotonic::now();
    while seconds_since(begin) < plan.seconds {
        let called_at = monotonic::now();
        both().await?;
        recorder.count(monotonic::now() - called_at);
        tally.holds += u64::from(plan.tasks);
    }
    let mut answer = Answer { workers: vec![tally], ..Answer::default() };
    recorder.finish(&mut answer.cycle);
    Ok(answer)
}

#[allow(clippy::cast_precision_loss)]
pub fn seconds_since(begin: u64) -> f64 {
    (monotonic::now() - begin) as f64 / 1e9
}
