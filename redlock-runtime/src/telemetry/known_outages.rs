//! Which nodes clients of this process find to be out. Clients may have nodes of one name: of one
//! server, or, with pools, of different ones.

use std::collections::HashMap;

use crate::mutex::Mutex;
use crate::process::{self, PerProcess};

/// How many clients find a node of this name to be out.
type Outages = HashMap<String, usize>;

static OUTAGES: PerProcess<Mutex<Outages>> = PerProcess::new();

/// A client finds the node to be out, until it ends that.
pub(super) fn begin(node: &str) {
    with_outages(|outages| *outages.entry(node.to_owned()).or_default() += 1);
}

pub(super) fn end(node: &str) {
    with_outages(|outages| {
        if let Some(clients) = outages.get_mut(node) {
            *clients -= 1;
            if *clients == 0 {
                outages.remove(node);
            }
        }
    });
}

/// Does a client find a node of this name to be out?
pub(super) fn are_known(node: &str) -> bool {
    with_outages(|outages| outages.contains_key(node))
}

/// After too many forks nothing is known.
fn with_outages<T: Default>(look: impl FnOnce(&mut Outages) -> T) -> T {
    let outages = OUTAGES.of(process::id(), Mutex::default);
    outages.map(|outages| look(&mut outages.lock())).unwrap_or_default()
}
