//! Waits for a connection to a node, for as long as a call may.

use std::pin::pin;

use super::deadline::{Deadline, bounded};
use super::failure::{Failure, no_connection};
use super::send_script::is_passing;
use crate::backend::redis::clock::CLOCK;
use crate::backend::redis::connection::{Loan, SharedConnection, Source, diagnose};
use crate::backend::redis::health::OutageLog;
use crate::clock::Moment;

/// Lends the connection, which is made first where there is none. One that ended while it was not
/// used is replaced. Returns also when the connection was looked at.
pub(crate) async fn open_connection<S: Source>(
    health: &OutageLog,
    connection: &SharedConnection<S>,
    deadline: &Deadline,
) -> Result<(Loan<S::Connection>, Moment), Failure> {
    loop {
        let mut loan = match connection.at_hand() {
            Some(loan) => loan,
            // Boxed: it is large, and seldom needed.
            None => Box::pin(connect(health.node(), connection, deadline)).await?,
        };
        let now = CLOCK.now();
        if !connection.forget_if_ended(&mut loan, now) {
            return Ok((loan, now));
        }
        health.broke();
    }
}

/// Waits for a connection until the deadline.
pub(crate) async fn connect<S: Source>(
    node: &str,
    connection: &SharedConnection<S>,
    deadline: &Deadline,
) -> Result<Loan<S::Connection>, Failure> {
    match bounded(connection, deadline, pin!(connection.borrow())).await {
        Some(Ok(loan)) => Ok(loan),
        Some(Err(error)) => {
            let why = diagnose(node, &error);
            let is_final = why.is_final && !is_passing::<S>(why.error.kind());
            Err(Failure::not_run(why.error).final_if(is_final))
        }
        None => Err(no_connection(node, deadline.within)),
    }
}
