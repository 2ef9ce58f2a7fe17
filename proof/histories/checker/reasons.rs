//! What fails where nothing has happened that could make it fail.

use super::Violation;
use crate::log::{Event, Line};

/// All violations of (k) by calls: they failed for another reason than these.
pub(crate) fn check_failures(lines: &[Line], reasons: &[&str]) -> Vec<Violation> {
    let baseless = lines.iter().filter_map(|line| match &line.event {
        Event::Failed { why } if !reasons.contains(&why.as_str()) => {
            Some(Violation::Baseless { attempt: line.attempt.clone(), what: why.clone() })
        }
        _ => None,
    });
    baseless.collect()
}

/// All violations of (k) by releases, where no lease ends early: each finds its lock.
pub(crate) fn check_releases(lines: &[Line]) -> Vec<Violation> {
    let baseless = lines.iter().filter_map(|line| match &line.event {
        Event::Released { found } if found != "Released" => {
            let what = format!("its release found {found}");
            Some(Violation::Baseless { attempt: line.attempt.clone(), what })
        }
        _ => None,
    });
    baseless.collect()
}
