//! What a hold takes at least: the body as it is, and a round trip, both measured.

use super::super::figures::{Figures, figures};
use super::super::lab::Lab;
use super::super::measure::{Cell, plan, start};
use super::super::scenario::SCENARIOS;
use super::super::subjects::SUBJECTS;
use super::super::usage::Usage;
use crate::Failure;
use crate::plan::{Answer, Plan};

#[derive(Debug, Clone, Copy)]
pub struct Pace {
    round_trip_us: f64,
    body_us: f64,
}

/// With the scenario of the round trip that the hand-over is divided by, in the same round.
pub async fn of(lab: &mut Lab) -> Result<Pace, Failure> {
    if let Some(pace) = lab.pace {
        return Ok(pace);
    }
    let scenario = SCENARIOS.iter().find(|scenario| scenario.name == "ping-1ms");
    let subject = SUBJECTS.iter().find(|subject| subject.name == "raw-ping");
    let (scenario, subject) = scenario.zip(subject).ok_or("nothing measures a round trip")?;
    let plan = plan(lab, scenario, subject, &Cell::none());
    let plan = Plan { is_open: true, ..plan };
    let mut workers = start(lab, subject, &plan, 1).await?;
    workers[0].go().await?;
    let bound = std::time::Duration::from_secs(30);
    let answer: Answer = serde_json::from_str(&workers[0].line(bound).await?)?;
    let figures = figures(&[answer], &Usage::default(), plan.seconds);
    let of = |name: &str| figures.get(name).copied().ok_or("no round trip was measured");
    let pace = Pace { round_trip_us: of("cycle_p50_us")?, body_us: of("wait_p50_us")? };
    lab.pace = Some(pace);
    Ok(pace)
}

impl Pace {
    /// One hold: the body, and a round trip to hand the lock over. Without a body, what is left
    /// of the hold is the release and the acquire.
    pub fn service_ns(&self, has_body: bool) -> f64 {
        let service_us =
            if has_body { self.body_us + self.round_trip_us } else { 2.0 * self.round_trip_us };
        service_us * 1e3
    }

    pub fn figures(&self) -> Figures {
        Figures::from([
            ("round_trip_us".to_owned(), self.round_trip_us),
            ("body_alone_us".to_owned(), self.body_us),
        ])
    }
}
