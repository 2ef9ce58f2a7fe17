//! All figures of a run.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::json;

use super::figures::Figures;
use super::machine::Machine;
use super::stats::Spread;
use super::subjects::SUBJECTS;

#[derive(Debug)]
pub struct Results {
    pub machine: Machine,
    /// How many were asked for.
    pub rounds: usize,
    /// Subjects that could not be measured, and why.
    pub not_measured: BTreeMap<String, String>,
    /// By the names of scenario and subject.
    pub scenarios: BTreeMap<String, BTreeMap<String, Series>>,
}

/// One subject in one scenario.
#[derive(Debug, Default)]
pub struct Series {
    /// Medians and spreads of `rounds`.
    pub summary: Summary,
    /// `None` where it failed, and in the rounds behind the first of what is measured once. Not
    /// written: the summary has what they say.
    pub rounds: Vec<Option<Figures>>,
}

pub type Summary = BTreeMap<String, Spread>;

impl Results {
    pub fn note(&mut self, scenario: &str, subject: &str, round: usize, figures: Figures) {
        let subjects = self.scenarios.entry(scenario.to_owned()).or_default();
        let series = subjects.entry(subject.to_owned()).or_default();
        series.rounds.resize(round.max(series.rounds.len()), None);
        series.rounds.push(Some(figures));
    }

    pub fn summarize(&mut self) {
        for series in self.scenarios.values_mut().flat_map(BTreeMap::values_mut) {
            series.summarize();
        }
    }

    /// One JSON object a line: the machine, then each subject in each scenario.
    pub fn lines(&self) -> serde_json::Result<String> {
        let Self { machine, rounds, not_measured, scenarios } = self;
        let head = json!({"machine": machine, "rounds": rounds, "not_measured": not_measured});
        let mut text = head.to_string() + "\n";
        for (scenario, subjects) in scenarios {
            for (subject, series) in subjects {
                let row = Row { scenario, subject, figures: &series.summary };
                text += &(serde_json::to_string(&row)? + "\n");
            }
        }
        Ok(text)
    }

    pub fn series(&self, scenario: &str, subject: &str) -> Option<&Series> {
        self.scenarios.get(scenario)?.get(subject)
    }

    /// Those of ours whose counter does not show what was counted: the lock had two holders.
    pub fn wrong_sums(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for (scenario, subjects) in &self.scenarios {
            for (name, series) in subjects {
                let is_ours = SUBJECTS.iter().any(|one| one.name == name && one.role.is_ours());
                if is_ours && series.missing().is_some_and(|missing| missing > 0.0) {
                    wrong.push(format!("{scenario}, {name}"));
                }
            }
        }
        wrong
    }

    pub fn spread(&self, scenario: &str, subject: &str, figure: &str) -> Option<Spread> {
        self.series(scenario, subject)?.summary.get(figure).copied()
    }

    pub fn median(&self, scenario: &str, subject: &str, figure: &str) -> Option<f64> {
        Some(self.spread(scenario, subject, figure)?.median)
    }

    /// One figure divided by another one of the same round.
    pub fn ratio(&self, of: (&str, &str, &str), to: (&str, &str, &str)) -> Option<Spread> {
        let (above, below) = (self.series(of.0, of.1)?, self.series(to.0, to.1)?);
        let pairs = above.rounds.iter().zip(&below.rounds);
        let ratios = pairs.filter_map(|(above, below)| {
            let ratio = above.as_ref()?.get(of.2)? / below.as_ref()?.get(to.2)?;
            ratio.is_finite().then_some(ratio)
        });
        Spread::of(ratios)
    }
}

/// A line of the file.
#[derive(Serialize)]
struct Row<'a> {
    scenario: &'a str,
    subject: &'a str,
    figures: &'a Summary,
}

impl Series {
    /// How many increments did not arrive, or twice, in all rounds; `None`: nobody has counted.
    pub fn missing(&self) -> Option<f64> {
        let difference =
            |figures: &Figures| Some((figures.get("increments")? - figures.get("counter")?).abs());
        self.rounds.iter().flatten().map(difference).reduce(|one, other| Some(one? + other?))?
    }

    fn summarize(&mut self) {
        let measured: Vec<_> = self.rounds.iter().flatten().collect();
        for name in measured.iter().flat_map(|figures| figures.keys()) {
            let values = measured.iter().filter_map(|figures| figures.get(name).copied());
            if let Some(spread) = Spread::of(values) {
                self.summary.insert(name.clone(), spread);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(rounds: &[Option<[f64; 2]>]) -> Series {
        let figures = |[increments, counter]: [f64; 2]| {
            let pair = [("increments", increments), ("counter", counter)];
            pair.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
        };
        let rounds = rounds.iter().map(|round| round.map(figures)).collect();
        Series { summary: Summary::new(), rounds }
    }

    #[test]
    fn what_nobody_has_counted_is_not_exact() {
        assert_eq!(series(&[Some([30.0, 30.0]), None, Some([9.0, 9.0])]).missing(), Some(0.0));
        let wrong = series(&[Some([30.0, 29.0]), Some([9.0, 11.0])]).missing();
        assert_eq!(wrong, Some(3.0), "one does not make up for the other");
        assert_eq!(series(&[]).missing(), None);
        assert_eq!(series(&[None]).missing(), None);
        let silent = Series { summary: Summary::new(), rounds: vec![Some(Figures::new())] };
        assert_eq!(silent.missing(), None);
    }
}
