//! Whether a call that failed is repeated, and when.

use std::pin::pin;
use std::time::Duration;

use tokio::time::sleep;

use crate::backend::redis::commands::deadline::{Deadline, bounded};
use crate::backend::redis::commands::failure::Failure;
use crate::backend::redis::commands::script_call::ScriptCall;
use crate::backend::redis::connection::{Diagnosis, Loan, SharedConnection, Source};
use crate::backend::redis::health::OutageLog;
use crate::error::NodeErrorKind;

/// The pause before a second repetition, in which a connection is made. Each further pause is twice
/// as long.
const PAUSE: Duration = Duration::from_millis(5);

/// Waits before the next repetition of a call whose last try failed, after `repeats` of them. The
/// first one comes at once. `Err`: the call is not repeated.
#[cold]
pub(super) async fn repeat<S: Source>(
    health: &OutageLog,
    connection: &SharedConnection<S>,
    call: &ScriptCall,
    deadline: &Deadline,
    loan: &Loan<S::Connection>,
    why: Diagnosis,
    repeats: u32,
) -> Result<(), Failure> {
    if let Some(failure) = failure_unless_repeated(health, connection, call, loan, why, repeats) {
        return Err(failure);
    }
    if let Some(doublings) = repeats.checked_sub(1) {
        let pause = sleep(PAUSE * 2_u32.pow(doublings));
        let _ = bounded(connection, deadline, pin!(pause)).await;
    }
    Ok(())
}

/// What an error of the connection or the server means for the call. `None`: the call is repeated.
fn failure_unless_repeated<S: Source>(
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
    (!is_repeated).then(|| Failure::not_run(why.error).unknown_if(may_have_run).final_if(is_final))
}

/// A cluster's error while it changes is not final.
pub(crate) fn is_passing<S: Source>(kind: NodeErrorKind) -> bool {
    !S::LEADS_TO_ONE && kind == NodeErrorKind::Cluster
}
