//! Connections of processes to nodes: how long they take to be made, and whether they are. A
//! connect goes on when whoever wanted it has gone.

use std::collections::HashMap;

use fastrand::Rng;

use super::network::Connection;
use super::node_plan::Failure;
use super::plan::{Plan, Tick};
use super::weather::Weather;

/// What `backend/redis/connection/connect.rs` says: a connect that is not done gets company after
/// this time, and each time after twice as long ..
const COMPANY: Tick = 250;
/// .. and all of them are given up after this time.
const GIVEN_UP: Tick = 10_000;

#[derive(Debug, Default)]
pub(super) struct Connects {
    links: HashMap<Connection, Link>,
}

/// How a connection stands.
#[derive(Debug, Clone, Copy)]
enum Link {
    Made,
    Making(Connect),
}

/// A connect that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Connect {
    pub(super) ends: Tick,
    pub(super) is_good: bool,
}

impl Connects {
    /// The connect that a command has to wait for; `None`: its connection is there.
    pub(super) fn wanted(
        &mut self,
        plan: &Plan,
        random: &mut Rng,
        connection: Connection,
        now: Tick,
    ) -> Option<Connect> {
        if !plan.weather.has_connects() {
            return None;
        }
        match self.links.get(&connection) {
            Some(Link::Made) => return None,
            Some(Link::Making(connect)) if now < connect.ends => return Some(*connect),
            Some(Link::Making(connect)) if connect.is_good => {
                self.links.insert(connection, Link::Made);
                return None;
            }
            _ => {}
        }
        let connect = begin(plan, random, connection.node, now);
        self.links.insert(connection, Link::Making(connect));
        Some(connect)
    }

    pub(super) fn forget(&mut self, connection: Connection) {
        self.links.remove(&connection);
    }
}

fn begin(plan: &Plan, random: &mut Rng, node: usize, now: Tick) -> Connect {
    let Weather { latency, slow_connects, silent_connects, cut_connects, .. } =
        plan.weather_at(now);
    let (mut at, mut company) = (now, COMPANY);
    while at < now + GIVEN_UP {
        let fate = random.u16(..1000);
        let is_silent = match plan.nodes[node].outage(at) {
            Some(outage) if outage.how == Failure::Down => {
                return Connect { ends: at + latency, is_good: false };
            }
            Some(outage) => outage.how == Failure::Silent || outage.until > at + company,
            None => fate < silent_connects,
        };
        if is_silent {
            at += company;
            company *= 2;
            continue;
        }
        // TCP, the login and the questions who is there.
        let done = at + 3 * latency;
        let fate = fate.saturating_sub(silent_connects);
        return match fate {
            fate if fate < cut_connects => Connect { ends: done, is_good: false },
            fate if fate < cut_connects + slow_connects => {
                Connect { ends: done + random.u64(10..800), is_good: true }
            }
            _ => Connect { ends: done, is_good: true },
        };
    }
    Connect { ends: now + GIVEN_UP, is_good: false }
}
