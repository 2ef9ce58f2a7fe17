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
    /// A server, or what they are together.
    pub(super) place: String,
    pub(super) is_about_one: bool,
    pub(super) what: &'static str,
    pub(super) grade: Grade,
    pub(super) text: String,
}

/// Collects the findings of one place.
#[derive(Debug)]
pub(super) struct Report {
    place: String,
    is_about_one: bool,
    pub(super) findings: Vec<Finding>,
}

impl Report {
    /// About one server.
    pub(super) fn of(server: &str) -> Self {
        Self { place: server.to_owned(), is_about_one: true, findings: Vec::new() }
    }

    /// About all servers together.
    pub(super) fn of_all(place: &str) -> Self {
        Self { is_about_one: false, ..Self::of(place) }
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
        let (place, is_about_one) = (self.place.clone(), self.is_about_one);
        self.findings.push(Finding { place, is_about_one, what, grade, text });
    }
}
