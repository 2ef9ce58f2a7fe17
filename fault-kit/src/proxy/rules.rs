//! What happens to a request, and to which one.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::resp::command_name;

/// Which requests a rule is about.
#[derive(Debug, Clone)]
pub enum Match {
    /// Every one.
    Any,
    /// Those with these bytes anywhere.
    Contains(Vec<u8>),
    /// Those with one of these command names, in capitals.
    Command(Vec<String>),
}

/// Every request.
pub fn any() -> Match {
    Match::Any
}

/// Requests that contain these bytes anywhere: a command name, a key, an argument.
pub fn contains(bytes: impl AsRef<[u8]>) -> Match {
    Match::Contains(bytes.as_ref().to_vec())
}

/// Requests with one of these command names, in any case.
pub fn command(names: &[&str]) -> Match {
    Match::Command(names.iter().map(|name| name.to_ascii_uppercase()).collect())
}

impl Match {
    fn fits(&self, request: &[u8]) -> bool {
        match self {
            Match::Any => true,
            Match::Contains(bytes) => request.windows(bytes.len()).any(|part| part == bytes),
            Match::Command(names) => names.contains(&command_name(request)),
        }
    }
}

/// What a rule does with a request that fits.
#[derive(Clone)]
pub enum Then {
    /// The request never arrives; the connection is silent from then on.
    LoseRequest,
    /// The request is executed, its reply never arrives; the connection is silent from then on.
    LoseReply,
    /// The connection is closed and the request never arrives.
    CutRequest,
    /// The request is executed; the connection is closed in place of its reply.
    CutReply,
    /// The request is executed; the connection is reset (RST) in place of its reply.
    ResetReply,
    /// The request never arrives; these bytes are the reply.
    Answer(Vec<u8>),
    /// As `Answer`, and then the connection is closed.
    AnswerAndCut(Vec<u8>),
    /// The request is executed; these bytes stand in for its reply.
    Replace(Vec<u8>),
    /// The request arrives late, and so does all that follows it.
    DelayRequest(Duration),
    /// The reply arrives late, and so does all that follows it.
    DelayReply(Duration),
    /// Calls this (to freeze a server, say), then forwards the request.
    Call(Arc<dyn Fn() + Send + Sync>),
}

impl Then {
    /// `Then::Call` of a closure.
    pub fn call(action: impl Fn() + Send + Sync + 'static) -> Then {
        Then::Call(Arc::new(action))
    }
}

impl fmt::Debug for Then {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Then")
    }
}

#[derive(Debug)]
pub struct Trigger {
    pub matches: Match,
    /// Fitting requests that pass before the first hit.
    pub skip: usize,
    /// How often it still acts.
    pub left: usize,
    pub then: Then,
    pub hits: watch::Sender<usize>,
}

/// The faults that are switched on.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches, not one state")]
pub struct Rules {
    pub request_delay: Duration,
    pub reply_delay: Duration,
    pub lose_requests: bool,
    pub lose_replies: bool,
    pub lose_next_replies: usize,
    pub byte_by_byte: bool,
    pub refuse: bool,
    pub triggers: Vec<Trigger>,
}

impl Rules {
    /// The first rule that fits this request and is not used up.
    pub fn trigger(&mut self, request: &[u8]) -> Option<Then> {
        for trigger in &mut self.triggers {
            if trigger.left == 0 || !trigger.matches.fits(request) {
                continue;
            }
            if trigger.skip > 0 {
                trigger.skip -= 1;
                continue;
            }
            trigger.left -= 1;
            trigger.hits.send_modify(|hits| *hits += 1);
            return Some(trigger.then.clone());
        }
        None
    }

    /// Whether the reply that has just come in is lost.
    pub fn loses_reply(&mut self) -> bool {
        let next = self.lose_next_replies > 0;
        self.lose_next_replies -= usize::from(next);
        next || self.lose_replies
    }
}
