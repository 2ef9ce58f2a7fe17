//! One lock, looked at again and again: a server that is silent does not keep the others from being
//! heard.

use std::time::Instant;

use redlock::__operator::LockKeys;
use tokio::task::JoinSet;
use tokio::time::timeout_at;

use crate::duration::show;
use crate::failure::{Failure, told};
use crate::holder::Holder;
use crate::node::Node;
use crate::output::complain;
use crate::servers::Servers;
use crate::survey::{PATIENCE, Survey, View, Voters};

/// The servers, each asked by a task of its own, which may outlast a look.
pub(crate) struct Lookout {
    name: String,
    keys: LockKeys,
    voters: Voters,
    servers: Vec<Server>,
    asked: JoinSet<Answer>,
    /// The number of this look.
    look: u64,
}

struct Server {
    name: String,
    /// `None`: it is being asked.
    node: Option<Node>,
    /// It did not answer the last look.
    silence: Option<Silence>,
}

struct Silence {
    since: Instant,
    error: String,
    is_told: bool,
}

/// What the server with this index has answered to a question of this look.
struct Answer {
    server: usize,
    look: u64,
    node: Node,
    view: View,
}

impl Lookout {
    pub(crate) fn of(servers: &Servers, name: &str) -> Result<Self, Failure> {
        let survey = Survey::of_keys(servers)?;
        let keys = survey.keys(name)?;
        let (nodes, voters) = survey.into_parts();
        let server =
            |node: Node| Server { name: node.name().to_owned(), node: Some(node), silence: None };
        let servers = nodes.into_iter().map(server).collect();
        Ok(Self { name: name.to_owned(), keys, voters, servers, asked: JoinSet::new(), look: 0 })
    }

    /// Who has the lock now, with what each server says. An error: too few servers answer to know.
    /// The others are told of on stderr, once.
    pub(crate) async fn look(&mut self) -> Result<(Option<Holder>, Vec<View>), Failure> {
        self.look += 1;
        let begun = Instant::now();
        for server in 0..self.servers.len() {
            self.ask(server);
        }
        let found = self.answers().await;
        let views = self.servers.iter_mut().zip(found).map(|(server, view)| {
            let unanswered = || Err(told(&Node::silence(&server.name)));
            let view =
                view.unwrap_or_else(|| View { node: server.name.clone(), details: unanswered() });
            server.heard(&view, begun);
            view
        });
        let seen = self.voters.decided_holder(&self.name, views.collect())?;
        self.servers.iter_mut().for_each(Server::tell_silence);
        Ok(seen)
    }

    /// Asks a server, unless it is being asked.
    fn ask(&mut self, server: usize) {
        let Some(mut node) = self.servers[server].node.take() else { return };
        let (keys, look) = (self.keys.clone(), self.look);
        self.asked.spawn(async move {
            let view = View::of(&mut node, &keys).await;
            Answer { server, look, node, view }
        });
    }

    /// The answers to this look. Once those are enough, it waits for the other servers with
    /// [`PATIENCE`], and not at all for those that were silent before.
    async fn answers(&mut self) -> Vec<Option<View>> {
        let mut end = None;
        let mut found: Vec<Option<View>> = self.servers.iter().map(|_| None).collect();
        loop {
            let good = found.iter().flatten().filter(|view| view.details.is_ok()).count();
            let is_enough = self.voters.is_enough(good);
            let is_awaited = |server: &Server| server.node.is_none() && server.silence.is_none();
            if is_enough && !self.servers.iter().any(is_awaited) {
                return found;
            }
            let next = self.asked.join_next();
            let next = if is_enough {
                let end = *end.get_or_insert_with(|| Instant::now() + PATIENCE);
                timeout_at(end.into(), next).await.unwrap_or_default()
            } else {
                next.await
            };
            // A task is neither aborted, nor does it panic.
            let Some(Ok(Answer { server, look, node, view })) = next else { return found };
            self.servers[server].node = Some(node);
            if look == self.look {
                found[server] = Some(view);
            } else {
                // It says how the lock was at an earlier look.
                self.servers[server].heard(&view, Instant::now());
                self.ask(server);
            }
        }
    }
}

impl Server {
    fn heard(&mut self, view: &View, now: Instant) {
        match (&view.details, &mut self.silence) {
            (Ok(_), silence) => {
                if let Some(Silence { since, is_told: true, .. }) = silence.take() {
                    complain(&format!(
                        "{} answers again, after {}",
                        self.name,
                        show(since.elapsed())
                    ));
                }
            }
            (Err(error), Some(silence)) => silence.error.clone_from(error),
            (Err(error), silence @ None) => {
                *silence = Some(Silence { since: now, error: error.clone(), is_told: false });
            }
        }
    }

    fn tell_silence(&mut self) {
        if let Some(silence) = self.silence.as_mut().filter(|silence| !silence.is_told) {
            silence.is_told = true;
            complain(&format!("{}; the other servers are watched meanwhile", silence.error));
        }
    }
}
