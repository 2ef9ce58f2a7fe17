//! The search among the locks that the current task holds.

use std::sync::Arc;

use super::{HoldLink, innermost, with_links};
use crate::error::{AlreadyHeldReason, LockError};
use crate::hold::{Hold, Turn};

/// The hold that a call finds when it wants a lock which its task holds already.
#[derive(Debug)]
pub(crate) struct Reenterable {
    pub(super) parent: Arc<HoldLink>,
    /// The turn of the parent.
    pub(super) turn: Option<Arc<Turn>>,
}

impl HoldLink {
    /// Is it a link to a hold of this key? `name`: the key without the client's prefix.
    fn is_to(&self, client: u64, name: &str) -> bool {
        self.hold.client.id == client && self.hold.has_key(name)
    }
}

/// The link to the lock that the current task took last.
pub(crate) fn current() -> Option<Arc<HoldLink>> {
    innermost(|_| true)
}

/// The holds of the current task, the one taken last first; one may come several times.
pub(crate) fn holds() -> Vec<Arc<Hold>> {
    with_links(|links| links.iter().rev().map(|(_, link)| Arc::clone(&link.hold)).collect())
        .unwrap_or_default()
}

/// The holds of this client inside of which the current task is, and which go on.
pub(crate) fn holds_of(client: u64) -> Vec<Arc<Hold>> {
    let is_it = |hold: &&Arc<Hold>| hold.client.id == client && !hold.is_over();
    with_links(|links| links.iter().map(|(_, link)| &link.hold).filter(is_it).cloned().collect())
        .unwrap_or_default()
}

/// The current task's hold of a key of one client, if its lease still holds: the innermost one that
/// has not ended. `name`: the key without the client's prefix.
pub(crate) fn find(client: u64, name: &str) -> Option<Reenterable> {
    let is_it = |link: &&Arc<HoldLink>| link.is_to(client, name) && !link.hold.is_over();
    let found = with_links(|links| {
        let mut own = links.iter().rev().map(|(_, link)| link).filter(is_it);
        let innermost = own.next()?;
        // The links say which body polls which. A body that began inside of one call may be polled
        // by another one, so the call that is deepest in the tree is looked for.
        let (link, is_only_hold) = own.fold((innermost, true), |(deepest, is_only), next| {
            let is_same = next.hold.id == innermost.hold.id;
            (if next.is_inside(deepest) { next } else { deepest }, is_only && is_same)
        });
        Some((Arc::clone(link), is_only_hold))
    });
    let (link, is_only_hold) = found.flatten()?;
    // Nothing may have noticed yet that its time is up. `check` ends such a hold, and the next
    // search passes over it.
    if !is_only_hold && matches!(link.hold.check(), Err(LockError::Lost { .. })) {
        return find(client, name);
    }
    let (parent, turn) = link.nearest_under_way();
    Some(Reenterable { parent: Arc::clone(parent), turn })
}

/// The same for several keys, which have to be those of one hold. A task that holds some of them
/// only must not wait for the others: it would not take them in the order of keys.
pub(crate) fn find_all<'a>(
    client: u64,
    names: impl Iterator<Item = &'a str> + Clone,
) -> Result<Option<Reenterable>, LockError> {
    let held = names.clone().find_map(|name| Some((name, find(client, name)?)));
    let Some((name, held)) = held else { return Ok(None) };
    if names.clone().all(|name| held.parent.hold.has_key(name)) {
        return Ok(Some(held));
    }
    let with = names.filter(|other| *other != name).map(str::to_owned).collect();
    Err(LockError::AlreadyHeld {
        key: name.to_owned(),
        reason: AlreadyHeldReason::SeveralKeys,
        with,
    })
}

/// Fails for a call that would re-enter a hold of one of these keys if that hold has ended: the
/// call must not take a lock of its own, as its code counts on the outer one. To be asked where the
/// task holds none of the keys.
pub(crate) fn check_not_ended<'a>(
    client: u64,
    mut names: impl Iterator<Item = &'a str>,
) -> Result<(), LockError> {
    let link = names.find_map(|name| innermost(|link| link.is_to(client, name)));
    link.map_or(Ok(()), |link| link.hold.check())
}
