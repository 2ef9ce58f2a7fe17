//! The proof that a server remembers leases from before a client met it.

use std::collections::HashMap;
use std::time::Duration;

use deadpool_redis::redis;
use deadpool_redis::redis::RedisResult;
use deadpool_redis::redis::aio::ConnectionLike;

use super::MILLI;
use super::identity::Identity;
use crate::backend::redis::health::info::field;
use crate::backend::{Predecessor, Witness};

/// The proof that a server remembers leases from before this client met it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Proof {
    Nothing,
    /// Clients have watched this process for this long.
    Watched(Duration),
    /// It keeps every write over a restart. Clients have watched its data for this long; `None`:
    /// since its group began.
    Durable(Option<Duration>),
    /// Another client, which has watched it for this long, has found that it kept all data of the
    /// process that this client knew.
    Inherited(Duration, Predecessor),
}

impl Proof {
    /// What it shows to a client that has had its last answer when the clock of the server had
    /// `last_shown` this, and the process all of whose data were kept then. `former`: the one that
    /// this client met before.
    pub(super) fn believed(
        self,
        former: Option<Predecessor>,
        last_shown: Option<i64>,
    ) -> (Self, Option<Predecessor>) {
        let Self::Inherited(watched_for, noted) = self else { return (self, former) };
        if last_shown.is_some_and(|last| last.div_euclid(MILLI) < noted.followed_at) {
            (Self::Durable(Some(watched_for)), Some(noted))
        } else {
            (Self::Watched(watched_for), None)
        }
    }
}

/// What is proved by the list that clients have left on the server, and by its configuration. If
/// the user may not read the configuration, the careful answer is returned.
pub(super) async fn prove(
    info: &str,
    identity: &Identity,
    known: Option<&Identity>,
    founders_key: &str,
    connection: &mut (impl ConnectionLike + Send),
) -> RedisResult<Proof> {
    let founders: Option<String> =
        redis::cmd("GET").arg(founders_key).query_async(connection).await?;
    let Some(founders) = founders else { return Ok(Proof::Nothing) };
    let witness = Witness::find(&founders);
    if let Some(witness) = witness.as_ref().filter(|seen| seen.run_id == identity.name()) {
        let is_known = |former: &&Predecessor| known.is_some_and(|it| it.name() == former.run_id);
        return Ok(match witness.heir_of.as_ref().filter(is_known) {
            Some(former) => Proof::Inherited(witness.watched_for, former.clone()),
            None => Proof::Watched(witness.watched_for),
        });
    }
    // The data that it has kept must be those of the process that answered here before.
    let is_heir = known.is_none_or(|known| {
        // Dates name all other servers.
        let mut names = founders.split(' ').filter(|word| !word.contains("=@"));
        names.any(|name| name.contains(&*known.run_id))
    });
    if field(info, "aof_enabled") != Some("1") || identity.was_promoted || !is_heir {
        return Ok(Proof::Nothing);
    }
    let mut ask = redis::cmd("CONFIG");
    ask.arg("GET").arg("*appendfsync*");
    // RESP3 has a map for them.
    let settings: RedisResult<HashMap<String, String>> = ask.query_async(connection).await;
    let is_durable = settings.is_ok_and(|settings| {
        let has = |name, value| settings.get(name).is_some_and(|found| found == value);
        has("appendfsync", "always") && has("no-appendfsync-on-rewrite", "no")
    });
    let watched_for = witness.map(|witness| witness.watched_for);
    Ok(if is_durable { Proof::Durable(watched_for) } else { Proof::Nothing })
}
