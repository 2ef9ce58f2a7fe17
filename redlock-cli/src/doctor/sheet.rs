//! What the doctor prints, as soon as it is found.

use std::io;

use super::finding::{Finding, Grade, Report};
use crate::output::{Paint, json_line, plain, say};

#[derive(Debug)]
pub(super) struct Sheet {
    is_json: bool,
    paint: Paint,
    /// Which place the last line was about.
    last: String,
    worst: Grade,
}

impl Sheet {
    pub(super) fn new(is_json: bool) -> Self {
        let (paint, last) = (Paint::for_stdout(), String::new());
        Self { is_json, paint, last, worst: Grade::Good }
    }

    pub(super) fn worst(&self) -> Grade {
        self.worst
    }

    /// Prints what a report has found since this was called for it last.
    pub(super) fn print(&mut self, report: &mut Report) -> io::Result<()> {
        for finding in report.findings.drain(..) {
            self.worst = self.worst.max(finding.grade);
            say(&if self.is_json { as_json(&finding) } else { self.as_text(&finding) })?;
        }
        Ok(())
    }

    fn as_text(&mut self, finding: &Finding) -> String {
        let Finding { place, what, grade, text, .. } = finding;
        let mut lines = String::new();
        if *place != self.last {
            self.last.clone_from(place);
            lines = format!("{}\n", self.paint.bold(&plain(place)));
        }
        let shown = format!("{:<9}", grade.name());
        let shown = match grade {
            Grade::Good => self.paint.green(&shown),
            Grade::Doubtful => self.paint.yellow(&shown),
            Grade::Bad => self.paint.red(&shown),
        };
        lines + &format!("  {shown} {what:<12} {}\n", plain(text))
    }
}

fn as_json(finding: &Finding) -> String {
    let Finding { place, is_about_one, what, grade, text } = finding;
    let line = serde_json::json!({
        "server": is_about_one.then_some(place), "check": what, "grade": grade.name(),
        "text": text,
    });
    json_line(&line)
}
