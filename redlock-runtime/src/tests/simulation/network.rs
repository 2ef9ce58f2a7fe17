//! What is on its way between processes and nodes, and what becomes of it.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::fmt;

use fastrand::Rng;

use super::connects::{Connect, Connects};
use super::line::ReleaseHint;
use super::node::{Answer, Card, Command, Node};
use super::node_plan::{Failure, Upheaval};
use super::plan::{KEYS, LinePlan, NEVER, Plan, Tick, millis};
use super::scripts::By;
use super::vacancy::{Demand, Vacancies, Vacancy, concerns};
use super::weather::Weather;
use crate::key::LockKey;

/// The nodes, and everything that has been sent to them. What has landed is carried out when
/// somebody looks: nobody can tell the difference, and it needs no timer.
#[derive(Debug)]
pub(super) struct Network {
    pub(super) nodes: Vec<Node>,
    flights: BinaryHeap<Reverse<Flight>>,
    /// What the nodes have published, and when; not on its way yet.
    registry: Vec<(Tick, ReleaseHint)>,
    /// With each, how often the node had lost its data.
    answers: Vec<Option<(Answer, Card)>>,
    /// When the last command of each connection lands: they keep their order.
    connections: HashMap<Connection, Tick>,
    connects: Connects,
    sent: u64,
    vacancies: Vacancies,
    /// When the last mishap on the way was over, of each key.
    mishaps: [Option<Tick>; KEYS.len()],
    random: Rng,
}

/// One process has two connections to each node, as the real backend does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Connection {
    pub(super) process: usize,
    pub(super) node: usize,
    pub(super) is_for_renewals: bool,
}

/// Something that happens to a node; ordered by time, then by the order of sending.
#[derive(Debug)]
struct Flight {
    lands: Tick,
    number: u64,
    node: usize,
    load: Load,
}

#[derive(Debug)]
enum Load {
    /// A command, and where its answer goes.
    Command(Command, By, Option<usize>),
    Upheaval(Upheaval),
    /// A person deletes a key, with its queue or without.
    Deletion(usize),
}

/// How a command will go, as far as its sender can ever know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Course {
    /// When it is carried out; [`NEVER`]: not at all.
    pub(super) lands: Tick,
    pub(super) end: End,
    /// An earlier try broke off, and lands late.
    pub(super) was_cut: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Answered(Tick),
    /// The connection breaks; nobody knows what became of the command.
    Broken(Tick),
    Refused(Tick),
    Silence,
}

impl fmt::Display for Course {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lands, end, was_cut } = self;
        match *lands {
            NEVER => write!(f, "never lands")?,
            at => write!(f, "lands at {at} ms")?,
        }
        write!(f, ", {end:?}{}", if *was_cut { ", and once more, late" } else { "" })
    }
}

impl Network {
    pub(super) fn new(plan: &Plan, random: Rng) -> Self {
        let nodes = plan.nodes.iter().map(|node| Node::new(node, plan.line.clone())).collect();
        let mut network = Self {
            nodes,
            flights: BinaryHeap::new(),
            registry: Vec::new(),
            answers: Vec::new(),
            connections: HashMap::new(),
            connects: Connects::default(),
            sent: 0,
            vacancies: Vacancies::new(plan.nodes.len(), plan.mixture.places()),
            mishaps: [None; KEYS.len()],
            random,
        };
        for (index, node) in plan.nodes.iter().enumerate() {
            for (at, upheaval) in &node.upheavals {
                network.fly(*at, index, Load::Upheaval(*upheaval));
            }
            for (at, key) in &plan.habits.deletions {
                network.fly(*at, index, Load::Deletion(*key));
            }
        }
        network
    }

    /// Sends a command that leaves at `at`. The subscription is for [`answer`](Self::answer).
    pub(super) fn send(
        &mut self,
        plan: &Plan,
        connection: Connection,
        (command, by): (&Command, By),
        at: Tick,
    ) -> (usize, Course) {
        let node = connection.node;
        let mut course = self.course(plan, connection, at);
        if course.was_cut && matches!(command, Command::Join(_) | Command::Rotate { .. }) {
            // These are never sent a second time.
            course.was_cut = false;
            if let End::Answered(at) = course.end {
                course.end = End::Broken(at);
            }
        }
        if course.lands != NEVER {
            self.connections.insert(connection, course.lands);
        }
        if let Some(until) = course.mishap(plan, at) {
            self.trouble(command, until);
        }
        let subscription = self.answers.len();
        self.answers.push(None);
        if course.lands != NEVER {
            self.fly(course.lands, node, Load::Command(command.clone(), by, Some(subscription)));
        }
        if course.was_cut {
            let late = course.lands.saturating_add(self.random.u64(1..400));
            self.trouble(command, late);
            self.fly(late, node, Load::Command(command.clone(), by, None));
        }
        (subscription, course)
    }

    /// Sends a command without waiting for it, that lands no earlier than `after`. Returns when.
    pub(super) fn send_behind(
        &mut self,
        plan: &Plan,
        node: usize,
        command: Command,
        at: Tick,
        after: Tick,
    ) -> Tick {
        let lands = self.arrival(plan, at).max(after);
        if lands > at + plan.weather.latency {
            self.trouble(&command, lands);
        }
        self.fly(lands, node, Load::Command(command, By::Text, None));
        lands
    }

    /// The next command goes over a new connection, and may overtake those before it.
    pub(super) fn discard(&mut self, connection: Connection) {
        self.connections.remove(&connection);
        self.connects.forget(connection);
    }

    /// The connect that a command has to wait for, if its connection is not there.
    pub(super) fn connect(
        &mut self,
        plan: &Plan,
        connection: Connection,
        command: &Command,
        now: Tick,
    ) -> Option<Connect> {
        let connect = self.connects.wanted(plan, &mut self.random, connection, now)?;
        self.trouble(command, connect.ends);
        Some(connect)
    }

    /// Carries out everything that has landed by `now`.
    pub(super) fn settle(&mut self, now: Tick) {
        while self.flights.peek().is_some_and(|Reverse(next)| next.lands <= now) {
            let Some(Reverse(flight)) = self.flights.pop() else { return };
            let node = &mut self.nodes[flight.node];
            match flight.load {
                Load::Upheaval(upheaval) => node.upset(upheaval, flight.lands),
                Load::Deletion(key) => {
                    if let Ok(key) = LockKey::new("", KEYS[key]) {
                        node.delete(&key);
                        if flight.lands % 2 == 0 {
                            node.delete_queue(&key);
                        }
                    }
                }
                Load::Command(command, by, subscription) => {
                    let answer = node.execute(&command, by, flight.lands);
                    let registry = node.registry.drain(..).map(|notice| (flight.lands, notice));
                    self.registry.extend(registry);
                    if let Some(subscription) = subscription {
                        self.answers[subscription] = Some((answer, node.card()));
                    }
                }
            }
            self.vacancies.note(flight.node, &self.nodes[flight.node], flight.lands);
        }
    }

    /// What was published, with the times at which it arrives. Some of it is lost, some comes
    /// twice.
    pub(super) fn published(&mut self, plan: &Plan) -> Vec<(Tick, ReleaseHint)> {
        let mut arrive = Vec::new();
        for (sent, notice) in std::mem::take(&mut self.registry) {
            let Weather { lost_replies, twice, .. } = plan.weather_at(sent);
            let copies = match self.random.u16(..1000) {
                fate if fate < lost_replies => 0,
                fate if fate < lost_replies + twice => 2,
                _ => 1,
            };
            if copies == 0 {
                self.trouble_all(sent);
            }
            for _ in 0..copies {
                let at = self.arrival(plan, sent);
                if at > sent + plan.weather.latency {
                    self.trouble_all(at);
                }
                let is_heard = |line: &LinePlan| line.hears(notice.process, sent, at);
                if plan.line.as_ref().is_some_and(is_heard) {
                    arrive.push((at, notice.clone()));
                }
            }
        }
        arrive
    }

    pub(super) fn answer(&mut self, subscription: usize) -> Option<(Answer, Card)> {
        self.answers[subscription].take()
    }

    /// Something that concerns the same keys as a command went wrong, and is over at `until`.
    fn trouble(&mut self, command: &Command, until: Tick) {
        let concerned = self.mishaps.iter_mut().zip(KEYS).filter(|(_, key)| concerns(command, key));
        for (mishap, _) in concerned {
            *mishap = (*mishap).max(Some(until));
        }
    }

    /// The same for a message that may be about any key.
    fn trouble_all(&mut self, until: Tick) {
        for mishap in &mut self.mishaps {
            *mishap = (*mishap).max(Some(until));
        }
    }

    /// When the last mishap with a key on the way to the nodes or back was over.
    pub(super) fn mishap(&self, key: usize) -> Option<Tick> {
        self.mishaps[key]
    }

    /// Since when a lock is free for what those who wait want of it.
    pub(super) fn vacancy(
        &self,
        plan: &Plan,
        key: usize,
        demand: Demand,
        now: Tick,
    ) -> Option<Vacancy> {
        self.vacancies.of((key, demand), plan.quorum(), now)
    }

    fn fly(&mut self, lands: Tick, node: usize, load: Load) {
        self.sent += 1;
        self.flights.push(Reverse(Flight { lands, number: self.sent, node, load }));
    }

    fn course(&mut self, plan: &Plan, connection: Connection, at: Tick) -> Course {
        let node = &plan.nodes[connection.node];
        let before = self.connections.get(&connection).copied().unwrap_or_default();
        let arrives = self.arrival(plan, at).max(before);
        let mut course = Course { lands: arrives, end: End::Silence, was_cut: false };
        match node.outage(arrives) {
            Some(outage) if outage.how == Failure::Down => {
                return Course { lands: NEVER, end: End::Refused(arrives), ..course };
            }
            Some(outage) if outage.how == Failure::Silent => {
                return Course { lands: NEVER, ..course };
            }
            Some(frozen) => course.lands = frozen.until,
            None => {}
        }
        let mut fate = self.random.u16(..1000);
        let mut is = |share: u16| {
            let is_hit = fate < share;
            fate = if is_hit { 1000 } else { fate - share };
            is_hit
        };
        let weather = plan.weather_at(at);
        if is(weather.lost_requests) {
            return Course { lands: NEVER, ..course };
        }
        if is(weather.lost_replies) {
            return course;
        }
        let is_broken = is(weather.resets);
        course.was_cut = is(weather.twice);
        let back = self.arrival(plan, course.lands);
        // A node that goes down takes the connection with it.
        let goes_down = node.outage(back).is_some_and(|outage| outage.how == Failure::Down);
        course.end = if is_broken || goes_down { End::Broken(back) } else { End::Answered(back) };
        course
    }

    fn arrival(&mut self, plan: &Plan, at: Tick) -> Tick {
        let Weather { latency, shortest, slow, .. } = plan.weather_at(at);
        let is_slow = slow > 0 && self.random.u16(..1000) < slow;
        at + if is_slow { self.random.u64(1..150) } else { self.random.u64(shortest..=latency) }
    }
}

impl Course {
    /// When what went wrong on the way of a command that left at `at` is over, if something did.
    fn mishap(self, plan: &Plan, at: Tick) -> Option<Tick> {
        let landed = if self.lands == NEVER { at } else { self.lands };
        match self.end {
            End::Answered(back) if back <= at + 2 * plan.weather.latency => None,
            End::Answered(back) | End::Broken(back) | End::Refused(back) => Some(back.max(landed)),
            End::Silence => Some(landed.max(at + millis(plan.reply_timeout))),
        }
    }
}

impl Ord for Flight {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.lands, self.number).cmp(&(other.lands, other.number))
    }
}

impl PartialOrd for Flight {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Flight {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Flight {}
