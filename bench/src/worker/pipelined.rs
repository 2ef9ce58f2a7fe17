//! The ceiling of the server: the commands of redlock for many keys in few pipelines on one
//! connection. Some are always under way, so that nothing but the server's own time is left.

use redis::aio::MultiplexedConnection;
use redis::{Client, Pipeline};

use super::capture::{Cycle, capture};
use super::run::{say, wait_for_go};
use crate::Failure;
use crate::histogram::Recorder;
use crate::monotonic;
use crate::plan::{Answer, Plan, Tally};

/// One is written and one is read while the server works on others.
const PIPELINES: u32 = 4;

pub async fn measure(plan: &Plan) -> Result<Answer, Failure> {
    let cycle = capture(&plan.url).await?;
    let connection = Client::open(plan.url.as_str())?.get_multiplexed_async_connection().await?;
    let count = PIPELINES.min(plan.tasks);
    let mut lanes: Vec<_> =
        (0..count).map(|first| Lane::new(&connection, &cycle, plan, first, count)).collect();
    for lane in &mut lanes {
        lane.cycle().await?;
    }
    say("ready");
    wait_for_go().await?;
    let until = plan.seconds;
    let begin = monotonic::now();
    let lanes: Vec<_> =
        lanes.into_iter().map(|lane| tokio::spawn(lane.work(begin, until))).collect();
    let mut answer = Answer::default();
    for lane in lanes {
        let (tally, recorder) = lane.await??;
        answer.workers.push(tally);
        recorder.finish(&mut answer.cycle);
    }
    Ok(answer)
}

/// Some of the keys: all acquires in one pipeline, then all releases.
struct Lane {
    connection: MultiplexedConnection,
    acquires: Pipeline,
    releases: Pipeline,
    keys: u64,
}

impl Lane {
    fn new(
        connection: &MultiplexedConnection,
        cycle: &Cycle,
        plan: &Plan,
        first: u32,
        step: u32,
    ) -> Lane {
        let (acquires, releases) = (Pipeline::new(), Pipeline::new());
        let mut lane = Lane { connection: connection.clone(), acquires, releases, keys: 0 };
        for number in (first..plan.tasks).step_by(usize::try_from(step).unwrap_or(1)) {
            let (acquire, behind) = cycle.of(&format!("{}-{number}", plan.key));
            lane.acquires.add_command(acquire).ignore();
            for command in behind {
                lane.releases.add_command(command).ignore();
            }
            lane.keys += 1;
        }
        lane
    }

    async fn cycle(&mut self) -> Result<(), Failure> {
        self.acquires.exec_async(&mut self.connection).await?;
        self.releases.exec_async(&mut self.connection).await?;
        Ok(())
    }

    async fn work(mut self, begin: u64, seconds: f64) -> Result<(Tally, Recorder), Failure> {
        let (mut tally, mut recorder) = (Tally::default(), Recorder::new());
        while seconds_since(begin) < seconds {
            let called_at = monotonic::now();
            self.cycle().await?;
            recorder.count(monotonic::now() - called_at);
            tally.holds += self.keys;
        }
        Ok((tally, recorder))
    }
}

#[allow(clippy::cast_precision_loss)]
pub fn seconds_since(begin: u64) -> f64 {
    (monotonic::now() - begin) as f64 / 1e9
}
