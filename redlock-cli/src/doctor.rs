//! `redlock doctor`: whether the servers are fit for locks.

mod checks;
mod finding;
mod rights;
mod server;
mod sheet;

use crate::args::DoctorArgs;
use crate::failure::Failure;
use crate::servers::Servers;

use sheet::Sheet;

/// Prints a line a finding. The exit code is the worst grade.
pub(crate) async fn doctor(args: &DoctorArgs, servers: &Servers) -> Result<u8, Failure> {
    let mut sheet = Sheet::new(args.json);
    checks::all(servers, &mut sheet).await?;
    Ok(sheet.worst().code())
}
