//! A call that wants a lock while its task holds others: the order that this makes, and what its
//! error says of it.

use super::order::Order;
use crate::body::reentrancy::lookup;
use crate::engine::Engine;
use crate::error::LockError;
use crate::key::LockKey;
use crate::kind::{Kind, READER, group_of};
use crate::lock_order::{OrderConflict, Ordered};
use crate::options::Wait;
use crate::shield::tell;
use crate::telemetry;

/// Notes the order in which the current task nests its locks. A lock without a template or a label
/// has no name in it, and a single attempt waits for no other call. `keys`: the key of the call, or
/// the first and the last of several: the others stand between them.
pub(super) fn note_nesting<'a>(
    engine: &Engine,
    template: &'static str,
    keys: impl IntoIterator<Item = &'a LockKey>,
    wait: Wait,
) {
    let holds = lookup::holds();
    let has_name = |template: &str| template != telemetry::PROGRAMMATIC && !template.is_empty();
    if holds.is_empty() || wait == Wait::Never || !has_name(template) {
        return;
    }
    for key in keys {
        let held = holds
            .iter()
            .filter(|hold| {
                hold.client.id == engine.id && has_name(hold.terms.template) && !hold.is_over()
            })
            .flat_map(|hold| {
                let template = hold.terms.template;
                hold.first_and_last().map(move |key| Ordered { template, key })
            });
        let conflicts = engine.lock_order.note(held, Ordered { template, key: key.name() });
        conflicts.into_iter().for_each(warn);
    }
}

fn warn(conflict: OrderConflict) {
    match conflict {
        OrderConflict::Circle(path) => {
            let order = path.join(" -> ");
            let what = if path.len() == 3 { "in both orders" } else { "in a circle" };
            tell!(
                warn,
                order,
                "locks are nested {what}: such calls can wait for each other until their `wait` \
                 is over; nest them in one order everywhere, or take them at once with \
                 `Redlock::lock_all`"
            );
        }
        OrderConflict::Unsorted(template) => tell!(
            warn,
            template,
            "locks of one template are nested in no order of their keys: such calls can wait for \
             each other until their `wait` is over; sort the keys, or take them at once with \
             `Redlock::lock_all`"
        ),
    }
}

/// Adds to the error of a call that found its lock busy whether this client has the lock, whether
/// only another call that waits kept this one out, and, if the call waited, what its task holds
/// meanwhile.
pub(super) fn with_holds(engine: &Engine, order: &Order, mut error: LockError) -> LockError {
    let LockError::Timeout { holder, is_own, is_kept_out, while_holding, .. } = &mut error else {
        return error;
    };
    let wait = order.policy.wait();
    let is_of = |holder: &str| engine.client.is_of(holder);
    *is_own = holder.as_deref().is_some_and(is_of);
    *is_kept_out = order.kind == Kind::Read && holder.as_deref().and_then(group_of) == Some(READER);
    if wait != Wait::Never {
        for hold in lookup::holds().iter().filter(|hold| !hold.is_over()) {
            for key in hold.key_names() {
                if !while_holding.contains(key) {
                    while_holding.push(key.clone());
                }
            }
        }
    }
    error
}
