//! The span in which a body runs.

use std::time::Duration;

use tracing::Span;

use crate::hold::Hold;

/// The span of a body under `hold`. `template`: the one of its call, which is not that of the hold
/// where the call re-entered; `waited`: how long that call waited for the lock.
pub(crate) fn span(hold: &Hold, template: &'static str, waited: Duration) -> Span {
    tracing::debug_span!(
        "redlock",
        key = hold.claim.key.name(),
        keys = hold.several_names().map(tracing::field::debug),
        template,
        fencing_token = %hold.fencing_token,
        ?waited,
    )
}
