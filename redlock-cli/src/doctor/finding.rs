//! One line of the doctor.

/// How good something is, the worst last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Grade {
    Good,
    Doubtful,
    Bad,
}

impl Grade {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Doubtful => "doubtful",
            Self::Bad => "bad",
        }
    }

    pub(super) fn code(self) -> u8 {
        match self {
            Self::Good => 0,
            Self::Doubtful => 1,
            Self::Bad => 2,
        }
    }
}

/// What was found, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    /// A server, or all of them.
    pub(super) place: String,
    pub(super) what: &'static str,
    pub(super) grade: Grade,
    pub(super) text: String,
}

/// Collects the findings of one place.
#[derive(Debug)]
pub(super) struct Report {
    place: String,
    pub(super) findings: Vec<Finding>,
}

impl Report {
    pub(super) fn of(place: &str) -> Self {
        Self { place: place.to_owned(), findings: Vec::new() }
    }

    pub(super) fn good(&mut self, what: &'static str, text: impl Into<String>) {
        self.add(what, Grade::Good, text.into());
    }

    pub(super) fn doubtful(&mut self, what: &'static str, text: impl Into<String>) {
        self.add(what, Grade::Doubtful, text.into());
    }

    pub(super) fn bad(&mut self, what: &'static str, text: impl Into<String>) {
        self.add(what, Grade::Bad, text.into());
    }

    fn add(&mut self, what: &'static str, grade: Grade, text: String) {
        self.findings.push(Finding { place: self.place.clone(), what, grade, text });
    }
}
