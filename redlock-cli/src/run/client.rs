//! A client for the servers, which may be down for a while when `redlock run` starts.

use std::mem::replace;
use std::time::{Duration, Instant};

use redlock::__operator as operator;
use redlock::{LockError, NodeErrorKind, Redlock, Wait};
use tokio::time::sleep;

use crate::args::RunArgs;
use crate::failure::{in_own_words, lacks_descriptors};
use crate::output::complain_if_read;
use crate::servers::{Servers, Topology};

/// Between two tries to connect.
const PAUSE: Duration = Duration::from_millis(250);

/// Connects. Where the servers are down, it tries again until the wait is over. Returns also what
/// is left of the wait.
pub(super) async fn client(
    args: &RunArgs,
    servers: &Servers,
) -> Result<(Redlock, Wait), LockError> {
    let wait = if args.nonblock { Wait::Never } else { args.wait };
    let begun = Instant::now();
    let mut is_told = false;
    loop {
        let built = build(args, servers).await;
        let rest = match wait {
            Wait::AtMost(wait) => Wait::from(wait.saturating_sub(begun.elapsed())),
            wait => wait,
        };
        let error = match built {
            Ok(redlock) => return Ok((redlock, rest)),
            Err(error) if rest == Wait::Never || !is_outage(&servers.topology, &error) => {
                return Err(error);
            }
            Err(error) => error,
        };
        if wait == Wait::Forever && !replace(&mut is_told, true) {
            let error = in_own_words(&error.to_string());
            complain_if_read(&format!("{error}; this waits for it without end"));
        }
        sleep(if let Wait::AtMost(left) = rest { PAUSE.min(left) } else { PAUSE }).await;
    }
}

async fn build(args: &RunArgs, servers: &Servers) -> Result<Redlock, LockError> {
    let mut builder = servers.builder();
    if let Some(name) = &args.client_name {
        builder = builder.client_name(name);
    }
    builder.build().await
}

/// Can the servers make a lock once an outage is over? Otherwise a person has to change something
/// before.
fn is_outage(topology: &Topology, error: &LockError) -> bool {
    let LockError::Unavailable { nodes, .. } = error else { return false };
    let (masters, may_fail_over) = match topology {
        Topology::Masters(urls) => (urls.len(), false),
        Topology::Sentinel { .. } | Topology::Cluster(_) => (1, true),
    };
    let passes = |kind: NodeErrorKind| match kind {
        NodeErrorKind::ReadOnly | NodeErrorKind::Cluster => may_fail_over,
        kind => operator::is_outage(kind),
    };
    let unfit = nodes.iter().filter(|node| !passes(node.kind())).count();
    let is_here = nodes.iter().any(|node| lacks_descriptors(node.message()));
    !is_here && masters.saturating_sub(unfit) > masters / 2
}
