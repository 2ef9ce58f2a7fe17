//! What all servers of a group say of their locks.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::task::Poll;
use std::time::{Duration, Instant};

use redlock::__operator::{LockKeys, lock_keys};
use redlock::NodeError;
use tokio::time::sleep;

use crate::failure::{self, Failure, told};
use crate::holder::{Holder, Record};
use crate::locks::{self, Details, Listing};
use crate::masters::Masters;
use crate::node::Node;
use crate::output::{complain, plain};
use crate::servers::{Servers, Topology};

/// For how long the other servers are waited for, once those that have answered are enough.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

/// The same where they were waited for before.
const PATIENCE_AGAIN: Duration = Duration::from_millis(100);

/// The servers that are asked, again and again by some commands.
#[derive(Debug)]
pub(crate) struct Survey<'a> {
    nodes: Vec<Node>,
    /// Which servers these are, where locks are listed.
    masters: Option<Masters<'a>>,
    prefix: String,
    voters: Voters,
}

/// What the answers of its servers mean.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Voters {
    servers: usize,
    /// Has each server all locks, or each a part of them?
    is_cluster: bool,
}

/// Locks by name, and what is to be said on stderr: why some may be left out.
pub(crate) type Listed = (BTreeMap<String, Holder>, Vec<String>);

/// What one server says of one lock; an error as it is printed.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) node: String,
    pub(crate) details: Result<Details, String>,
}

impl<'a> Survey<'a> {
    /// To list locks. The servers are found at the first look.
    pub(crate) fn of_servers(servers: &'a Servers) -> Result<Self, Failure> {
        let masters = Some(Masters::of(servers)?);
        Ok(Self { masters, ..Self::new(Vec::new(), servers) })
    }

    /// To look at single locks.
    pub(crate) fn of_keys(servers: &Servers) -> Result<Self, Failure> {
        Ok(Self::new(Node::of_keys(servers)?, servers))
    }

    fn new(nodes: Vec<Node>, servers: &Servers) -> Self {
        let is_cluster = matches!(servers.topology, Topology::Cluster(_));
        let voters = Voters { servers: nodes.len(), is_cluster };
        Self { nodes, masters: None, prefix: servers.prefix.clone(), voters }
    }

    /// The independent masters of the group.
    pub(crate) fn masters(&self) -> usize {
        self.voters.masters()
    }

    pub(crate) fn into_parts(self) -> (Vec<Node>, Voters) {
        (self.nodes, self.voters)
    }

    /// Asks all servers at once. Their answers, in order. Once enough have answered well, the
    /// others are waited for with this patience.
    pub(crate) async fn ask<T>(
        &mut self,
        patience: Duration,
        ask: impl AsyncFn(&mut Node) -> Result<T, NodeError>,
    ) -> Vec<Result<T, NodeError>> {
        let voters = self.voters;
        let mut asked: Vec<_> = self.nodes.iter_mut().map(|node| Box::pin(ask(node))).collect();
        let mut answers: Vec<Option<Result<T, NodeError>>> = asked.iter().map(|_| None).collect();
        let mut end = None;
        poll_fn(|cx| {
            for (asked, answer) in asked.iter_mut().zip(&mut answers) {
                if answer.is_none()
                    && let Poll::Ready(told) = asked.as_mut().poll(cx)
                {
                    *answer = Some(told);
                }
            }
            if answers.iter().all(Option::is_some) {
                return Poll::Ready(());
            }
            if !voters.is_enough(answers.iter().flatten().filter(|told| told.is_ok()).count()) {
                return Poll::Pending;
            }
            end.get_or_insert_with(|| Box::pin(sleep(patience))).as_mut().poll(cx)
        })
        .await;
        drop(asked);
        let answers = self.nodes.iter_mut().zip(answers);
        answers.map(|(node, told)| told.unwrap_or_else(|| Err(node.give_up()))).collect()
    }

    pub(crate) fn keys(&self, name: &str) -> Result<LockKeys, Failure> {
        Ok(lock_keys(&self.prefix, name)?)
    }

    /// All locks that are held and whose name matches. An error: what is known is not enough.
    pub(crate) async fn list(
        &mut self,
        pattern: &str,
    ) -> Result<BTreeMap<String, Holder>, Failure> {
        let (locks, notes) = self.list_quietly(pattern).await?;
        for note in &notes {
            complain(note);
        }
        Ok(locks)
    }

    /// The same, with what is to be said of single servers.
    pub(crate) async fn list_quietly(&mut self, pattern: &str) -> Result<Listed, Failure> {
        if let Some(masters) = &mut self.masters {
            masters.find(&mut self.nodes).await?;
            self.voters.servers = self.nodes.len();
        }
        let mut answers: Vec<BTreeMap<String, Record>> = Vec::new();
        let (mut errors, mut notes) = (Vec::new(), Vec::new());
        let prefix = self.prefix.clone();
        let list = async |node: &mut Node| locks::list(node, &prefix, pattern).await;
        let mut listed = self.ask(PATIENCE, list).await;
        self.list_old_again(&mut listed).await;
        let now = Instant::now();
        let held = |(name, record): (String, Record)| (name, record.at(now));
        for (node, answer) in self.nodes.iter().zip(listed) {
            match answer {
                Ok(found) => {
                    notes.extend(unread(node.name(), found.unread));
                    answers.push(found.locks.into_iter().map(held).collect());
                }
                Err(error) => errors.push(told(&error)),
            }
        }
        if let Some(masters) = self.masters.as_mut().filter(|_| !errors.is_empty()) {
            masters.doubt();
        }
        self.voters.check_enough(answers.len(), &errors)?;
        let of = self.masters();
        let names: BTreeSet<&String> = answers.iter().flat_map(BTreeMap::keys).collect();
        let holder = |name: &String| {
            // A lock that was just moved is seen at two masters of a cluster, and is one lock.
            let records = answers.iter().filter_map(|found| found.get(name)).take(of);
            let holder = Holder::among(records, of)?;
            Some((name.clone(), Holder { unanswered: errors.len(), ..holder }))
        };
        let locks = names.into_iter().filter_map(holder).collect();
        Ok((locks, [errors, notes].concat()))
    }

    /// A lease that was short when its server answered may have been renewed while other servers
    /// were waited for, or many locks were read; or the lock is free: it is asked for once more.
    async fn list_old_again(&mut self, listed: &mut [Result<Listing, NodeError>]) {
        let now = Instant::now();
        let found = listed.iter().flatten().flat_map(|found| &found.locks);
        let old: BTreeSet<&String> =
            found.filter(|(_, record)| record.is_old(now)).map(|(name, _)| name).collect();
        if old.is_empty() {
            return;
        }
        let names: Vec<String> = old.into_iter().cloned().collect();
        let prefix = self.prefix.clone();
        let look = async |node: &mut Node| locks::records(node, &prefix, &names).await;
        for (found, again) in listed.iter_mut().zip(self.ask(PATIENCE_AGAIN, look).await) {
            if let (Ok(found), Ok(again)) = (found, again) {
                found.locks.retain(|name, _| names.binary_search(name).is_err());
                found.locks.extend(again.locks);
            }
        }
    }

    /// Who has one lock, with what each server says. An error: too few servers answer.
    pub(crate) async fn holder(
        &mut self,
        name: &str,
    ) -> Result<(Option<Holder>, Vec<View>), Failure> {
        let keys = self.keys(name)?;
        let details = async |node: &mut Node| locks::details(node, &keys).await;
        let mut found = self.ask(PATIENCE, details).await;
        let now = Instant::now();
        let mut records = found.iter().flatten().filter_map(|details| details.record.as_ref());
        if records.any(|record| record.is_old(now)) {
            let again = self.ask(PATIENCE_AGAIN, details).await;
            let answers = found.iter_mut().zip(again).filter(|(_, again)| again.is_ok());
            answers.for_each(|(found, again)| *found = again);
        }
        let views = self.nodes.iter().zip(found).map(|(node, found)| View::new(node, found));
        self.voters.holder(views.collect())
    }
}

impl View {
    /// One lock on one server.
    pub(crate) async fn of(node: &mut Node, keys: &LockKeys) -> Self {
        let details = locks::details(node, keys).await;
        Self::new(node, details)
    }

    /// Does the server keep from this user who shares the lock?
    pub(crate) fn hides_members(&self) -> bool {
        let record = self.details.as_ref().ok().and_then(|details| details.record.as_ref());
        record.is_some_and(|record| record.hides_members)
    }

    fn new(node: &Node, details: Result<Details, NodeError>) -> Self {
        let details = details.map_err(|error| told(&error));
        Self { node: node.name().to_owned(), details }
    }
}

impl Voters {
    pub(crate) fn masters(self) -> usize {
        if self.is_cluster { 1 } else { self.servers }
    }

    /// Do so many answers decide, whatever the others say?
    pub(crate) fn is_enough(self, answers: usize) -> bool {
        if self.is_cluster { answers == self.servers } else { answers > self.servers / 2 }
    }

    /// Who has the lock now, with what each server has said of it, as of now. An error: too few
    /// servers answer.
    fn holder(self, mut views: Vec<View>) -> Result<(Option<Holder>, Vec<View>), Failure> {
        let now = Instant::now();
        for details in views.iter_mut().filter_map(|view| view.details.as_mut().ok()) {
            details.record = details.record.take().map(|record| record.at(now));
        }
        let errors: Vec<String> =
            views.iter().filter_map(|view| view.details.as_ref().err().cloned()).collect();
        self.check_enough(views.len() - errors.len(), &errors)?;
        let known = views.iter().filter_map(|view| view.details.as_ref().ok());
        let records = known.filter_map(|details| details.record.as_ref());
        let holder = Holder::among(records, self.masters());
        let unanswered = errors.len();
        Ok((holder.map(|holder| Holder { unanswered, ..holder }), views))
    }

    /// As [`holder`](Self::holder). It is an error, too, if the servers that do not answer decide
    /// whether the lock is held.
    pub(crate) fn decided_holder(
        self,
        name: &str,
        views: Vec<View>,
    ) -> Result<(Option<Holder>, Vec<View>), Failure> {
        let (holder, views) = self.holder(views)?;
        match &holder {
            Some(open) if open.is_held().is_none() => {
                Err(Failure::new(failure::UNAVAILABLE, undecided(name, open)))
            }
            _ => Ok((holder, views)),
        }
    }

    /// Do a majority of the masters answer? Of a cluster, all have to.
    fn check_enough(self, answers: usize, errors: &[String]) -> Result<(), Failure> {
        if self.is_enough(answers) {
            return Ok(());
        }
        Err(Failure::unavailable(errors.join("\nredlock: ")))
    }
}

/// What is printed about keys that the user may not read on this server.
fn unread(server: &str, keys: usize) -> Option<String> {
    let told = format!("{server}: keys left out, as this user may not read them: {keys}");
    (keys > 0).then_some(told)
}

/// What is printed about a lock of which nobody knows whether it is held.
pub(crate) fn undecided(name: &str, holder: &Holder) -> String {
    let Holder { votes, of, unanswered, .. } = holder;
    format!(
        "whether lock `{}` is held is not known: {votes} of {of} servers have it, and {unanswered} \
         cannot be asked",
        plain(name)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cluster has to answer as a whole: each server has other locks.
    #[test]
    fn so_many_answers_are_enough() {
        for (servers, is_cluster, enough) in
            [(1, false, 1), (2, false, 2), (3, false, 2), (4, false, 3), (1, true, 1), (3, true, 3)]
        {
            let voters = Voters { servers, is_cluster };
            assert!(voters.is_enough(enough) && !voters.is_enough(enough - 1), "{voters:?}");
            assert_eq!(voters.masters(), if is_cluster { 1 } else { servers });
        }
    }

    #[test]
    fn a_silent_server_may_decide() {
        let held = || {
            let (value, members) = ("a".into(), BTreeMap::new());
            let (left, answered) = (Some(Duration::from_secs(9)), Instant::now());
            Record { value, left, members, hides_members: false, waiting: None, answered }
        };
        let view = |details| View { node: "n".to_owned(), details };
        let has = |record| view(Ok(Details { record, ..Details::default() }));
        let silent = || view(Err("no reply".to_owned()));
        let voters = Voters { servers: 3, is_cluster: false };
        let decided = |views| voters.decided_holder("k", views).map(|(holder, _)| holder);
        let held_by_two = decided(vec![has(Some(held())), has(Some(held())), silent()]);
        let holder = held_by_two.unwrap().unwrap();
        assert_eq!((holder.votes, holder.unanswered), (2, 1));
        assert_eq!(decided(vec![has(None), has(None), silent()]).unwrap(), None);
        for views in
            [vec![has(Some(held())), has(None), silent()], vec![has(None), silent(), silent()]]
        {
            assert_eq!(decided(views).unwrap_err().code, failure::UNAVAILABLE);
        }
    }
}
