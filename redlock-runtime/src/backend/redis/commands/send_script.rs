//! Sends one script call to a node, and returns its answer, or what is known without an answer.

use std::time::Duration;

use deadpool_redis::redis::{RedisResult, Value};
use tokio::runtime::Handle;
use tokio::time::{Instant, Timeout, sleep, timeout_at};

use super::failure::{Failure, no_connection, no_reply, nonsense, superseded};
use super::script_call::ScriptCall;
use crate::backend::redis::clock::CLOCK;
use crate::backend::redis::connection::{
    Diagnosis, HasRun, Loan, SharedConnection, Source, diagnose,
};
use crate::backend::redis::health::OutageLog;
use crate::clock::Moment;
use crate::error::NodeErrorKind;

/// The pause before a second repetition, in which a connection is made. Each further pause is twice
/// as long.
const PAUSE: Duration = Duration::from_millis(5);

/// When the answer to a call must have come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    pub(crate) end: Instant,
    /// How long the call may take in all, for those who are told that it has failed.
    pub(crate) within: Duration,
}

impl Deadline {
    pub(crate) fn after(within: Duration) -> Self {
        Self { end: Instant::now() + within, within }
    }

    pub(crate) fn left(&self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }
}

/// Runs one script until the deadline. A connection that ended while it was not used is replaced
/// before. If it breaks under the call, it is replaced and the call is repeated, unless
/// `may_repeat` is false. When the script may still be carried out and its answer is lost, also
/// because this future was dropped, `on_abandoned` gets its connection.
pub(crate) async fn send_script<S: Source, T>(
    health: &OutageLog,
    connection: &SharedConnection<S>,
    call: &ScriptCall,
    deadline: &Deadline,
    decode: impl Fn(&Value) -> Option<T>,
    on_abandoned: impl Fn(Loan<S::Connection>),
) -> Result<ScriptAnswer<T, S::Connection>, Failure> {
    let node = health.node();
    let (mut was_cut, mut repeats) = (false, 0);
    let failure = loop {
        let mut loan = match connection.at_hand() {
            Some(loan) => loan,
            // Boxed: it is large, and seldom needed.
            None => match Box::pin(connect(node, connection, deadline)).await {
                Ok(loan) => loan,
                Err(failure) => break failure,
            },
        };
        let sent = CLOCK.now();
        if connection.forget_if_ended(&mut loan, sent) {
            health.broke();
            continue;
        }
        let mut sending = Sending { loan, is_over: false, on_abandoned: &on_abandoned };
        match bounded(connection, deadline, call.send(&mut sending.loan, &mut was_cut)).await {
            Ok(Ok(_)) if sending.loan.is_superseded() => break superseded(node),
            Ok(Ok((value, confirmed))) => {
                sending.loan.heard();
                let Some(found) = decode(&value) else {
                    // The next reply on this connection may be just as wrong.
                    connection.failed(&sending.loan, &call.key());
                    break nonsense(node, &value);
                };
                sending.is_over = true;
                health.heard();
                let loan = call.replicas.map(|_| sending.loan.clone());
                return Ok(ScriptAnswer { found, was_cut, sent, confirmed, loan });
            }
            Ok(Err(error)) => {
                let (why, loan) = (diagnose(health.node(), &error), &sending.loan);
                // Over a connection that is still there, a clean-up follows the command. Behind a
                // proxy, whose own connection may be another one, the repeated clean-ups find what
                // lands late.
                sending.is_over = why.has_run != HasRun::Perhaps;
                if let Some(failure) = failed(health, connection, call, loan, why, repeats) {
                    break failure;
                }
                was_cut = true;
                let _ = bounded(connection, deadline, pause_after(repeats)).await;
                repeats += 1;
            }
            Err(_) => {
                connection.gave_no_answer(&sending.loan, sent, &call.key());
                break no_reply(node, "no reply", deadline.within, true);
            }
        }
    };
    let took = deadline.within.saturating_sub(deadline.left());
    Err(health.failed(failure.unknown_if(was_cut), CLOCK.now().minus(took)))
}

/// What to do about an error of the connection or the server. `None`: the call is repeated.
#[cold]
fn failed<S: Source>(
    health: &OutageLog,
    connection: &SharedConnection<S>,
    call: &ScriptCall,
    loan: &Loan<S::Connection>,
    why: Diagnosis,
    repeats: u32,
) -> Option<Failure> {
    let has_no_answer = why.broke() || why.error.kind() == NodeErrorKind::Unreachable;
    if !has_no_answer {
        loan.heard();
    }
    if why.broke() {
        health.broke();
    }
    let is_repeated = why.broke() && call.may_repeat && repeats < S::REPEATS;
    // The client library of a cluster makes a broken connection anew by itself. If that has not
    // helped, the whole client is replaced. So it is where a server knows no master of the key:
    // the client library would ask the same server for ever.
    let mends_itself = is_repeated && !S::LEADS_TO_ONE;
    let is_astray = why.knows_no_master && !S::LEADS_TO_ONE;
    if (why.discard || has_no_answer || is_astray) && !mends_itself {
        connection.failed(loan, &call.key());
    }
    let is_final = why.is_final && !is_passing::<S>(why.error.kind());
    let may_have_run = why.may_have_run() || connection.repeats_unseen();
    (!is_repeated).then(|| Failure::new(why.error, may_have_run, is_final))
}

/// Waits for a connection until the deadline.
pub(crate) async fn connect<S: Source>(
    node: &str,
    connection: &SharedConnection<S>,
    deadline: &Deadline,
) -> Result<Loan<S::Connection>, Failure> {
    match bounded(connection, deadline, connection.borrow()).await {
        Ok(Ok(loan)) => Ok(loan),
        Ok(Err(error)) => {
            let why = diagnose(node, &error);
            let is_final = why.is_final && !is_passing::<S>(why.error.kind());
            Err(Failure::new(why.error, false, is_final))
        }
        Err(_) => Err(no_connection(node, deadline.within)),
    }
}

/// Waits before the next repetition, after `repeats` of them. The first one comes at once.
async fn pause_after(repeats: u32) {
    if let Some(doublings) = repeats.checked_sub(1) {
        sleep(PAUSE * 2_u32.pow(doublings)).await;
    }
}

/// Runs `future` until the deadline, by a timer that works even while the caller blocks its own
/// runtime.
fn bounded<S: Source, F: Future>(
    connection: &SharedConnection<S>,
    deadline: &Deadline,
    future: F,
) -> Timeout<F> {
    let _timer = connection.timer().map(Handle::enter);
    timeout_at(deadline.end, future)
}

/// For calls that need no clean-up.
pub(crate) fn no_undo<C>(_: Loan<C>) {}

/// A cluster's error while it changes is not final.
pub(crate) fn is_passing<S: Source>(kind: NodeErrorKind) -> bool {
    !S::LEADS_TO_ONE && kind == NodeErrorKind::Cluster
}

/// A command that was sent.
struct Sending<'a, C: Clone, F: Fn(Loan<C>)> {
    loan: Loan<C>,
    /// It is known what became of the command, or its connection broke.
    is_over: bool,
    on_abandoned: &'a F,
}

impl<C: Clone, F: Fn(Loan<C>)> Drop for Sending<'_, C, F> {
    fn drop(&mut self) {
        if !self.is_over {
            (self.on_abandoned)(self.loan.clone());
        }
    }
}

/// The answer to a script.
pub(crate) struct ScriptAnswer<T, C> {
    pub(crate) found: T,
    /// The connection of an earlier try broke, or that try was answered with an error that proves
    /// nothing: it may have been carried out, or may still arrive.
    pub(crate) was_cut: bool,
    pub(crate) sent: Moment,
    /// How many replicas have it, if that was requested.
    pub(crate) confirmed: RedisResult<u32>,
    /// Set if replicas were asked: commands that follow may need the same connection.
    pub(crate) loan: Option<Loan<C>>,
}

#[cfg(test)]
mod tests;
