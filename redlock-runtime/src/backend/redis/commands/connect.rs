//! Waits for a connection to a node, for as long as a call may.

use std::pin::pin;

use super::deadline::{Deadline, bounded};
use super::failure::{Failure, no_connection};
use super::send_script::is_passing;
use crate::backend::redis::connection::{Loan, SharedConnection, Source, diagnose};

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
