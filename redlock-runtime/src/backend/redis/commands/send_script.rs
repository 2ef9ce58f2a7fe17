//! Sends one script call to a node, and returns its answer, or what is known without an answer.

mod repetition;

use std::pin::pin;

use deadpool_redis::redis::{RedisResult, Value};

pub(crate) use self::repetition::is_passing;
use self::repetition::repeat;
use super::connect::open_connection;
use super::deadline::{Deadline, bounded};
use super::failure::{Failure, another_process, no_reply, nonsense, superseded};
use super::script_call::ScriptCall;
use crate::backend::redis::clock::CLOCK;
use crate::backend::redis::connection::{HasRun, Loan, SharedConnection, Source, diagnose};
use crate::backend::redis::health::OutageLog;
use crate::clock::Moment;

/// Runs one script until the deadline. A connection that ended while it was not used is replaced
/// before. If it breaks under the call, the call is repeated over another one, where `repetition`
/// allows that. When the script may still be carried out and its answer is lost, also because this
/// future was dropped, `on_abandoned` gets its connection.
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
        let (loan, sent) = match open_connection(health, connection, deadline).await {
            Ok(connected) => connected,
            Err(failure) => break failure,
        };
        if !call.is_for(loan.connection.met()) {
            // No failure of the node, which was not asked.
            return Err(another_process(node).unknown_if(was_cut));
        }
        let mut sending = Sending { loan, is_over: false, on_abandoned: &on_abandoned };
        let sent_call = call.send(&mut sending.loan, &mut was_cut);
        let answer = bounded(connection, deadline, pin!(sent_call)).await;
        match answer {
            // No failure of the server that answers now.
            Some(Ok(_)) if sending.loan.is_superseded() => return Err(superseded(node)),
            Some(Ok((value, confirmed))) => {
                sending.loan.heard();
                let Some(reply) = decode(&value) else {
                    // The next reply on this connection may be just as wrong.
                    connection.failed(&sending.loan, &call.key());
                    break nonsense(node, &value);
                };
                sending.is_over = true;
                health.heard();
                let begun = sending.loan.connection.met().begun;
                let loan = call.replicas.map(|_| sending.loan.clone());
                return Ok(ScriptAnswer { reply, was_cut, sent, begun, confirmed, loan });
            }
            Some(Err(error)) => {
                let (why, loan) = (diagnose(node, &error), &sending.loan);
                // `Perhaps`: the connection is still there, and the drop of `sending` undoes the
                // command over it. Otherwise there is nothing to undo, or no connection for it: the
                // repeated clean-ups find what lands late.
                sending.is_over = why.has_run != HasRun::Perhaps;
                let repetition = repeat(health, connection, call, deadline, loan, why, repeats);
                // Boxed: it is seldom needed.
                if let Err(failure) = Box::pin(repetition).await {
                    break failure;
                }
                (was_cut, repeats) = (true, repeats + 1);
            }
            None => {
                connection.gave_no_answer(&sending.loan, sent, &call.key());
                break no_reply(node, "no reply", deadline.within, true);
            }
        }
    };
    let took = deadline.within.saturating_sub(deadline.left());
    Err(health.failed(failure.unknown_if(was_cut), CLOCK.now().minus(took)))
}

/// For calls that need no clean-up.
pub(crate) fn no_undo<C>(_: Loan<C>) {}

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
    pub(crate) reply: T,
    /// The connection of an earlier try broke, or that try was answered with an error that proves
    /// nothing: it may have been carried out, or may still arrive.
    pub(crate) was_cut: bool,
    pub(crate) sent: Moment,
    /// When its connection began to be made.
    pub(crate) begun: Moment,
    /// How many replicas have it; zero where that was not requested.
    pub(crate) confirmed: RedisResult<u32>,
    /// Set if replicas were asked: commands that follow may need the same connection.
    pub(crate) loan: Option<Loan<C>>,
}

#[cfg(test)]
mod tests;
