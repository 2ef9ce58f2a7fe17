//! The servers of a history, and what is done to them.

use std::sync::atomic::{AtomicI64, Ordering};

use fault_kit::proxy::{Match, Then, any, command, contains};
use fault_kit::{Proxy, Server, ms, secs, time_passes};
use tokio::sync::{Mutex, RwLock};

use crate::kind::Kind;
use crate::log::{Moment, now};
use crate::plan::Fault;
use crate::servers::Servers;
use crate::topology::Topology;

/// What a client asks on a connection before it uses it.
const WHILE_CONNECTING: &[&str] = &["HELLO", "AUTH", "CLIENT", "INFO"];
/// What only clients of the library say there, and no sentinel: their name.
const NAME_OF_THE_LIBRARY: &str = "LIB-NAME";

/// Servers with proxies in front, to which all clients connect.
#[derive(Debug)]
pub(crate) struct Arena {
    topology: Topology,
    servers: Servers,
    proxies: Vec<Proxy>,
    /// Faults on one server follow each other, and so do those on one wire.
    busy: Vec<Mutex<()>>,
    spoilt: Vec<Mutex<()>>,
    /// Who changes roles needs all servers awake.
    roles: RwLock<()>,
    /// By how much a clock jumps: always in one direction, so that it never comes back.
    step: i64,
    ahead: Vec<AtomicI64>,
}

impl Arena {
    pub(crate) async fn start(topology: Topology, seed: u64, lock_keys: &[String]) -> Arena {
        let count = topology.servers();
        let (servers, proxies) = Servers::start(topology, lock_keys).await;
        let locks = || (0..count).map(|_| Mutex::default()).collect();
        let ahead = (0..count).map(|_| AtomicI64::new(0)).collect();
        let step = if (seed / 16).is_multiple_of(2) { 3 } else { -3 };
        let (busy, spoilt, roles) = (locks(), locks(), RwLock::default());
        Arena { topology, servers, proxies, busy, spoilt, roles, step, ahead }
    }

    pub(crate) fn urls(&self) -> Vec<String> {
        self.servers.urls(&self.proxies)
    }

    pub(crate) fn count(&self) -> usize {
        self.busy.len()
    }

    pub(crate) fn server(&self, n: usize) -> &Server {
        self.servers.server(n)
    }

    /// Waits until all servers know their roles.
    pub(crate) async fn settle(&self) {
        self.servers.settle().await;
    }

    /// Those that may hold locks that count.
    pub(crate) async fn masters(&self) -> Vec<&Server> {
        self.servers.masters().await
    }

    /// Carries a fault out and undoes what can be undone. False: it found nothing to hit, or its
    /// turn came too late.
    pub(crate) async fn suffer(&self, fault: &Fault, until: Moment) -> bool {
        let n = self.servers.target(fault, self.busy.len());
        if fault.kind.hits_the_wire() {
            let n = n % self.proxies.len();
            let _spoilt = self.spoilt[n].lock().await;
            return now() < until && self.spoil(&self.proxies[n], fault).await;
        }
        if self.servers.is_about_all(fault.kind) {
            let _all = self.roles.write().await;
            return self.strike(n, fault, until).await;
        }
        let _some = self.roles.read().await;
        let _busy = self.busy[n].lock().await;
        self.strike(n, fault, until).await
    }

    async fn strike(&self, n: usize, fault: &Fault, until: Moment) -> bool {
        if now() >= until {
            return false;
        }
        let server = self.server(n);
        let lasts = ms(fault.lasts_ms);
        match fault.kind {
            Kind::Failover => self.servers.fail_over(fault, &self.proxies).await,
            Kind::MoveSlot => self.servers.move_slot(fault).await,
            Kind::SentinelStop => self.servers.silence_a_sentinel(fault).await,
            Kind::ServerKill => {
                server.kill9();
                time_passes(lasts / 4).await;
                server.start_again().await;
                self.servers.restore_role(server).await;
            }
            Kind::RestartEmpty => {
                server.restart_empty().await;
                self.servers.restore_role(server).await;
            }
            Kind::WrongBoot => {
                // From seconds to days, ahead or behind.
                let off =
                    [5, 20, 7_200, 200_000][usize::try_from(fault.choice / 2 % 4).unwrap_or(0)];
                let off = if fault.choice.is_multiple_of(2) { off } else { -off };
                server.restart_empty_with_clock_off(off).await;
                self.servers.restore_role(server).await;
            }
            Kind::ServerStop => {
                server.freeze();
                time_passes(lasts).await;
                server.thaw();
            }
            Kind::Pause => {
                let mode = if fault.choice.is_multiple_of(2) { "ALL" } else { "WRITE" };
                server.raw().cmd(&["CLIENT", "PAUSE", &fault.lasts_ms.to_string(), mode]).await;
                time_passes(lasts).await;
            }
            Kind::FlushAll => drop(server.raw().try_cmd(&["FLUSHALL"]).await),
            Kind::ScriptFlush => drop(server.raw().cmd(&["SCRIPT", "FLUSH"]).await),
            Kind::Clock => self.jump(n, self.step),
            Kind::Blip => {
                let secs = i64::try_from(2 + fault.choice % 5).unwrap_or(2);
                let jump = if fault.choice.is_multiple_of(2) { secs } else { -secs };
                server.shift_clock(jump);
                time_passes(lasts).await;
                server.shift_clock(-jump);
            }
            other => unreachable!("{other:?} is no fault of a server"),
        }
        true
    }

    async fn spoil(&self, proxy: &Proxy, fault: &Fault) -> bool {
        let lasts = ms(fault.lasts_ms);
        match fault.kind {
            Kind::DropReply | Kind::DropRequest => {
                let is_reply = fault.kind == Kind::DropReply;
                let then = if is_reply { Then::LoseReply } else { Then::LoseRequest };
                let nth = usize::try_from(1 + fault.choice % 5).unwrap_or(1);
                let hits = proxy.when_nth(nth, any(), then);
                let lost = tokio::time::timeout(secs(2), hits.fired()).await;
                return lost.is_ok();
            }
            Kind::Reset => proxy.reset_all(),
            Kind::BlackHole => {
                proxy.black_hole();
                time_passes(lasts).await;
                // Half of the partitions heal, half of them have broken the connections.
                if fault.choice.is_multiple_of(2) {
                    proxy.cut_all();
                }
            }
            Kind::Delay => {
                let late = ms(fault.choice % 200);
                if fault.choice.is_multiple_of(2) {
                    proxy.delay_requests(late);
                } else {
                    proxy.delay_replies(late);
                }
                time_passes(lasts).await;
            }
            Kind::Split => {
                proxy.split_writes();
                time_passes(lasts).await;
            }
            kind if kind.hits_connects() => {
                let some = 1 + usize::try_from(fault.choice % 4).unwrap_or(0);
                let asks = self.while_connecting();
                match kind {
                    Kind::ConnectSlow => {
                        let late = Then::DelayReply(ms(20 + fault.choice % 100));
                        drop(proxy.always(asks, late));
                    }
                    Kind::ConnectSilent => {
                        drop(proxy.when_times(some, asks, Then::LoseReply));
                    }
                    _ => drop(proxy.when_times(some, asks, Then::ResetReply)),
                }
                proxy.reset_all();
                time_passes(lasts).await;
            }
            other => unreachable!("{other:?} is no fault of a wire"),
        }
        proxy.pass();
        true
    }

    /// Sentinels make connections to their servers, too, when all break.
    fn while_connecting(&self) -> Match {
        match self.topology {
            Topology::Sentinel => contains(NAME_OF_THE_LIBRARY),
            _ => command(WHILE_CONNECTING),
        }
    }

    fn jump(&self, n: usize, secs: i64) {
        self.ahead[n].fetch_add(secs, Ordering::Relaxed);
        self.server(n).shift_clock(secs);
    }

    /// Sets those clocks right that went back: what stands on their servers is to expire.
    pub(crate) fn catch_up(&self) {
        for n in 0..self.ahead.len() {
            let behind = self.ahead[n].load(Ordering::Relaxed).min(0);
            if behind < 0 {
                self.jump(n, -behind);
            }
        }
    }

    /// Ends whatever a fault has left: commands flow again.
    pub(crate) fn heal(&self) {
        self.proxies.iter().for_each(Proxy::pass);
    }
}
