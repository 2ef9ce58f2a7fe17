//! Asks the sentinels again and again whom they name: a failover breaks no connection to a master
//! that the others cannot reach.

use std::collections::HashMap;
use std::time::Duration;

use deadpool_redis::redis::aio::MultiplexedConnection;
use deadpool_redis::redis::{ConnectionAddr, ConnectionInfo};
use tokio::time::timeout;

use super::majority::is_majority;
use super::sentinel_answer::{address_in, fields, master_address};
use super::sentinel_vote::MasterAddress;
use crate::backend::redis::connection::dial;
use crate::backend::redis::connection::host_lookup::HostLookup;
use crate::clock::Moment;
use crate::mutex::Mutex;
use crate::together::together;

/// How long a connection to a sentinel may take, which has some four round trips with TLS.
const OPEN: Duration = Duration::from_secs(2);
/// How long a sentinel may take to answer.
const REPLY: Duration = Duration::from_secs(1);

/// Whom each of the sentinels watches, over connections that stay from one round to the next.
pub(super) struct SentinelWatch<'a> {
    master: &'a str,
    lookup: &'a HostLookup,
    sentinels: Vec<(&'a ConnectionInfo, Option<MultiplexedConnection>)>,
}

impl<'a> SentinelWatch<'a> {
    pub(super) fn new(
        sentinels: &'a [ConnectionInfo],
        master: &'a str,
        lookup: &'a HostLookup,
    ) -> Self {
        let sentinels = sentinels.iter().map(|sentinel| (sentinel, None)).collect();
        Self { master, lookup, sentinels }
    }

    /// The master that most of all sentinels name. `None`: most of them do not answer, or disagree.
    pub(super) async fn named(&mut self) -> Option<MasterAddress> {
        let (master, lookup, count) = (self.master, self.lookup, self.sentinels.len());
        let sentinels = self.sentinels.iter_mut();
        let asked = sentinels.map(|(sentinel, open)| ask(sentinel, open, master, lookup));
        let asked = asked.map(Box::pin).collect();
        let named: Vec<_> = together(asked).await.into_iter().flatten().collect();
        let votes = |one: &&MasterAddress| named.iter().filter(|other| other == one).count();
        named.iter().find(|one| is_majority(votes(one), count)).cloned()
    }
}

/// Whom a sentinel names. `None`: it does not answer, or knows no such master.
async fn ask(
    sentinel: &ConnectionInfo,
    open: &mut Option<MultiplexedConnection>,
    master: &str,
    lookup: &HostLookup,
) -> Option<MasterAddress> {
    let mut connection = match open.take() {
        Some(connection) => connection,
        None => timeout(OPEN, dial::connect(sentinel, lookup)).await.ok()?.ok()?,
    };
    let known = timeout(REPLY, fields(&mut connection, master)).await.ok()?.ok()?;
    *open = Some(connection);
    address_in(&known?)
}

/// The masters to which connections were made, and when the latest of each began.
#[derive(Default)]
pub(crate) struct LedTo(Mutex<HashMap<MasterAddress, Moment>>);

impl LedTo {
    /// A connection that `begun` then leads there.
    pub(super) fn note(&self, address: &ConnectionAddr, begun: Moment) {
        let Some(address) = master_address(address) else { return };
        let mut known = self.0.lock();
        let latest = known.entry(address).or_default();
        *latest = begun.max(*latest);
    }

    /// The master to which the latest connection leads.
    pub(super) fn latest(&self) -> Option<MasterAddress> {
        let known = self.0.lock();
        known.iter().max_by_key(|(_, begun)| **begun).map(|(address, _)| address.clone())
    }

    /// Forgets all masters but this one. Returns when the latest connection to another one began.
    pub(super) fn leave_others(&self, master: &MasterAddress) -> Option<Moment> {
        let mut known = self.0.lock();
        known.extract_if(|address, _| address != master).map(|(_, begun)| begun).max()
    }
}
