//! The gauge that shows whether a node answers. Clients may have nodes of one name: of one server,
//! or, with pools, of different ones.

use std::collections::HashMap;

use super::show_node;
use crate::mutex::Mutex;
use crate::process::{self, PerProcess};

/// Whether one client finds that its node answers: its part of the gauge of that name.
#[derive(Debug)]
pub(crate) struct NodeGauge {
    node: String,
    finds: Mutex<Finding>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Finding {
    #[default]
    Nothing,
    Answers,
    IsOut,
}

/// How many clients find a node of this name to answer, and to be out.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Clients {
    answers: usize,
    is_out: usize,
}

static NODES: PerProcess<Mutex<HashMap<String, Clients>>> = PerProcess::new();

impl NodeGauge {
    pub(crate) fn new(node: &str) -> Self {
        Self { node: node.to_owned(), finds: Mutex::default() }
    }

    /// The gauge shows an outage all the same while another client finds a node of this name out.
    pub(crate) fn note_answers(&self) {
        self.find(Finding::Answers);
    }

    /// The gauge is set also where this client knew of the outage: another client may have set it
    /// meanwhile.
    pub(crate) fn note_out(&self) {
        self.find(Finding::IsOut);
    }

    fn find(&self, finding: Finding) {
        let mut finds = self.finds.lock();
        let clients = count(&self.node, *finds, finding);
        *finds = finding;
        drop(finds);
        show_all(&self.node, clients);
    }
}

impl Drop for NodeGauge {
    /// Nobody looks any more whether the node is back, so the gauge would stay at 0.
    fn drop(&mut self) {
        let before = *self.finds.get_mut();
        let others = count(&self.node, before, Finding::Nothing);
        if before == Finding::IsOut {
            show_all(&self.node, others);
        }
    }
}

/// Counts what a client finds now in place of what it found before. Returns what all find. After
/// too many forks nothing is known.
fn count(node: &str, before: Finding, now: Finding) -> Clients {
    let nodes = NODES.of(process::id(), Mutex::default);
    let counted = nodes.map(|nodes| {
        let mut nodes = nodes.lock();
        let mut clients = nodes.remove(node).unwrap_or_default();
        if let Some(clients) = clients.number_of(before) {
            *clients = clients.saturating_sub(1);
        }
        if let Some(clients) = clients.number_of(now) {
            *clients += 1;
        }
        if clients.answers + clients.is_out > 0 {
            nodes.insert(node.to_owned(), clients);
        }
        clients
    });
    counted.unwrap_or_default()
}

impl Clients {
    fn number_of(&mut self, finding: Finding) -> Option<&mut usize> {
        match finding {
            Finding::Nothing => None,
            Finding::Answers => Some(&mut self.answers),
            Finding::IsOut => Some(&mut self.is_out),
        }
    }
}

/// Sets the gauge until it shows what all clients of the node find. A client that finds something
/// else meanwhile may have set the gauge before this one does, and would be overwritten.
fn show_all(node: &str, mut found: Clients) {
    loop {
        show_node(node, value(found));
        let now = count(node, Finding::Nothing, Finding::Nothing);
        if now == found {
            return;
        }
        found = now;
    }
}

/// A gauge cannot be taken back where nothing is known, but no comparison with `NaN` is true, and
/// aggregations prefer any other value.
fn value(found: Clients) -> f64 {
    match found {
        Clients { is_out: 1.., .. } => 0.0,
        Clients { answers: 1.., .. } => 1.0,
        Clients { .. } => f64::NAN,
    }
}
