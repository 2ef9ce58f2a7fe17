//! What waiting costs while nothing changes: one worker holds the lock all the time, the others
//! wait for it.

use std::time::Duration;

use super::figures::Figures;
use super::lab::Lab;
use super::measure::{Cell, plan, start};
use super::scenario::Scenario;
use super::subjects::Subject;
use super::usage::Usage;
use crate::Failure;
use crate::plan::Plan;

/// Until all wait, and the last first try is over.
const SETTLE: Duration = Duration::from_millis(1_500);

pub async fn measure(
    lab: &mut Lab,
    scenario: &Scenario,
    subject: &Subject,
) -> Result<Figures, Failure> {
    let plan = plan(lab, scenario, subject, &Cell::none());
    let waiters = scenario.processes * plan.tasks;
    let seconds = plan.seconds;
    // None of them ends while it is looked at.
    let plan = Plan { seconds: 60.0, ..plan };
    let hold = Plan { tasks: 1, first_worker: waiters, body_ms: 60_000.0, ..plan.clone() };
    let mut holder = start(lab, subject, &hold, 1).await?;
    let mut workers = start(lab, subject, &plan, scenario.processes).await?;
    holder[0].go().await?;
    tokio::time::sleep(Duration::from_millis(200)).await;
    for worker in &mut workers {
        worker.go().await?;
    }
    tokio::time::sleep(SETTLE).await;
    let pids: Vec<_> = workers.iter().map(super::child::Worker::pid).collect();
    let mut connection = lab.redis.connection.clone();
    let before = Usage::now(&mut connection, &pids).await?;
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
    let used = Usage::now(&mut connection, &pids).await?.since(&before);
    for worker in workers.into_iter().chain(holder) {
        worker.kill().await;
    }
    Ok(Figures::from([
        ("waiters".to_owned(), f64::from(waiters)),
        ("calls_per_s".to_owned(), used.all_calls() / seconds),
        ("scripts_per_s".to_owned(), used.scripts() / seconds),
        ("client_cpu_percent".to_owned(), used.client_cpu_s / seconds * 100.0),
        ("server_cpu_percent".to_owned(), used.server_cpu_s / seconds * 100.0),
    ]))
}
