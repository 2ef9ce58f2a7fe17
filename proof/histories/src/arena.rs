//! The servers of a history, and what is done to them.

use std::sync::atomic::{AtomicI64, Ordering};

use fault_kit::proxy::{Then, any, command};
use fault_kit::{Masters, Proxy, Replicated, Server, ServerBuilder, ms, secs, time_passes};
use tokio::sync::Mutex;

use crate::log::{Moment, now};
use crate::plan::{Fault, Kind};
use crate::topology::Topology;

/// What a client asks on a connection before it uses it.
const WHILE_CONNECTING: &[&str] = &["HELLO", "AUTH", "CLIENT", "INFO"];

/// Servers with proxies in front, to which all clients connect.
#[derive(Debug)]
pub struct Arena {
    servers: Servers,
    /// One for each independent server; one for a master and its replica.
    proxies: Vec<Proxy>,
    /// Faults on one server follow each other, and so do those on one wire.
    busy: Vec<Mutex<()>>,
    spoilt: Vec<Mutex<()>>,
    /// By how much a clock jumps: always in one direction, so that it never comes back.
    step: i64,
    ahead: Vec<AtomicI64>,
}

#[derive(Debug)]
enum Servers {
    Masters(Masters),
    Replicated(Replicated),
}

impl Arena {
    pub async fn start(topology: Topology, seed: u64) -> Arena {
        let count = topology.servers();
        let (servers, proxies) = if topology == Topology::Replicated {
            let servers = Replicated::start_with(count - 1, setup).await;
            let proxies = vec![Proxy::start(servers.master())];
            (Servers::Replicated(servers), proxies)
        } else {
            let masters = Masters::start_with(count, setup).await;
            let proxies = masters.iter().map(Proxy::start).collect();
            (Servers::Masters(masters), proxies)
        };
        let locks = || (0..count).map(|_| Mutex::default()).collect();
        let ahead = (0..count).map(|_| AtomicI64::new(0)).collect();
        let step = if (seed / 16).is_multiple_of(2) { 3 } else { -3 };
        Arena { servers, proxies, busy: locks(), spoilt: locks(), step, ahead }
    }

    pub fn urls(&self) -> Vec<String> {
        self.proxies.iter().map(Proxy::url).collect()
    }

    pub fn server(&self, n: usize) -> &Server {
        match &self.servers {
            Servers::Masters(masters) => &masters[n],
            Servers::Replicated(servers) => servers.server(n),
        }
    }

    /// Those that may hold locks that count.
    pub fn masters(&self) -> Vec<&Server> {
        match &self.servers {
            Servers::Masters(masters) => masters.iter().collect(),
            Servers::Replicated(servers) => vec![servers.master()],
        }
    }

    /// Carries a fault out and undoes what can be undone. False: it found nothing to hit, or its
    /// turn came too late.
    pub async fn suffer(&self, fault: &Fault, until: Moment) -> bool {
        let n = fault.target % self.busy.len();
        if fault.kind.hits_the_wire() {
            let n = n % self.proxies.len();
            let _spoilt = self.spoilt[n].lock().await;
            return now() < until && self.spoil(&self.proxies[n], fault).await;
        }
        // Who changes roles needs all servers awake.
        let Servers::Replicated(servers) = &self.servers else {
            let _busy = self.busy[n].lock().await;
            let is_time = now() < until;
            if is_time {
                self.strike(self.server(n), fault).await;
            }
            return is_time;
        };
        let _first = self.busy[0].lock().await;
        let _second = self.busy[1].lock().await;
        if now() > until {
            return false;
        }
        if fault.kind == Kind::Failover {
            self.fail_over(servers, fault).await;
        } else {
            self.strike(self.server(n), fault).await;
        }
        true
    }

    async fn strike(&self, server: &Server, fault: &Fault) {
        let lasts = ms(fault.lasts_ms);
        match fault.kind {
            Kind::ServerKill => {
                server.kill9();
                time_passes(lasts / 4).await;
                self.bring_back(server).await;
            }
            Kind::RestartEmpty => {
                server.restart_empty().await;
                self.restore_roles().await;
            }
            Kind::WrongBoot => {
                // From seconds to days, ahead or behind.
                let off =
                    [5, 20, 7_200, 200_000][usize::try_from(fault.choice / 2 % 4).unwrap_or(0)];
                let off = if fault.choice.is_multiple_of(2) { off } else { -off };
                server.restart_empty_with_clock_off(off).await;
                self.restore_roles().await;
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
            Kind::Clock => self.jump(fault.target % self.busy.len(), self.step),
            Kind::Blip => {
                let secs = i64::try_from(2 + fault.choice % 5).unwrap_or(2);
                let jump = if fault.choice.is_multiple_of(2) { secs } else { -secs };
                server.shift_clock(jump);
                time_passes(lasts).await;
                server.shift_clock(-jump);
            }
            other => unreachable!("{other:?} is no fault of a server"),
        }
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
                match kind {
                    Kind::ConnectSlow => {
                        let late = Then::DelayReply(ms(20 + fault.choice % 100));
                        drop(proxy.always(command(WHILE_CONNECTING), late));
                    }
                    Kind::ConnectSilent => {
                        drop(proxy.when_times(some, command(WHILE_CONNECTING), Then::LoseReply));
                    }
                    _ => drop(proxy.when_times(some, command(WHILE_CONNECTING), Then::ResetReply)),
                }
                proxy.reset_all();
                time_passes(lasts).await;
            }
            other => unreachable!("{other:?} is no fault of a wire"),
        }
        proxy.pass();
        true
    }

    /// Makes the other server the master, in one of three ways.
    async fn fail_over(&self, servers: &Replicated, fault: &Fault) {
        let next = usize::from(std::ptr::eq(servers.master(), servers.server(0)));
        let (old, new) = (servers.master(), servers.server(next));
        let lasts = ms(fault.lasts_ms);
        match fault.choice % 3 {
            // It has not heard of the last locks.
            0 => {
                new.freeze();
                time_passes(lasts).await;
                new.thaw();
                servers.promote(next).await;
            }
            // The old master is dead, and comes back as a replica.
            1 => {
                old.kill9();
                time_passes(lasts / 4).await;
                servers.promote(next).await;
            }
            _ => servers.promote(next).await,
        }
        self.proxies[0].lead_to(servers.master());
        self.proxies[0].cut_all();
        if !old.is_running() {
            self.bring_back(old).await;
        }
    }

    async fn bring_back(&self, server: &Server) {
        server.start_again().await;
        self.restore_roles().await;
    }

    /// A server starts in the role that it had at first.
    async fn restore_roles(&self) {
        if let Servers::Replicated(servers) = &self.servers {
            let n = usize::from(!std::ptr::eq(servers.master(), servers.server(0)));
            servers.promote(n).await;
        }
    }

    fn jump(&self, n: usize, secs: i64) {
        self.ahead[n].fetch_add(secs, Ordering::Relaxed);
        self.server(n).shift_clock(secs);
    }

    /// Sets those clocks right that went back: what stands on their servers is to expire.
    pub fn catch_up(&self) {
        for n in 0..self.ahead.len() {
            self.jump(n, -self.ahead[n].load(Ordering::Relaxed).min(0));
        }
    }

    /// Ends whatever a fault has left: commands flow again.
    pub fn heal(&self) {
        self.proxies.iter().for_each(Proxy::pass);
    }
}

/// Data survives a SIGKILL as soon as it is written, synchronised or not.
fn setup(server: ServerBuilder) -> ServerBuilder {
    server.append_only("no").with_clock()
}
