//! What operators are told of a lock that does not end by itself: calls wait for it, or are
//! skipped, until a person deletes its key.

use super::observed::Observed;
use crate::engine::Engine;
use crate::executor;
use crate::foreign_text;
use crate::key::LockKey;
use crate::report::Topic;
use crate::shield::tell;

/// Logs a warning if this is such a lock, unless there are many: then a summary covers the others.
#[cold]
pub(super) fn warn_if_endless(
    engine: &Engine,
    key: &LockKey,
    template: &'static str,
    observed: &Observed,
) {
    const WHAT: &str = "the lock does not end by itself, as its key has no expiry: delete the key \
                        where nobody holds the lock, or use another prefix";
    if !observed.is_endless() {
        return;
    }
    let (key, holder) = (key.name(), observed.holder.as_deref().map(foreign_text::shown));
    let holder = holder.as_deref();
    if executor::admits(&engine.reports, Topic::Endless, template) {
        tell!(warn, key, template, holder, "{WHAT}");
    } else {
        tell!(debug, key, template, holder, "{WHAT}");
    }
}
