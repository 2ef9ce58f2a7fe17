//! How the scripts call a shared kind.

use crate::backend::Claim;
use crate::kind::Kind;

/// What stands in an entry of the queue for a kind. An entry of an exclusive lock has the number of
/// its fencing tokens there; this is the number of one that wants none.
pub(in crate::backend::redis::commands) fn tokens(kind: Kind) -> String {
    match kind {
        Kind::Exclusive => "0".to_owned(),
        Kind::Read => "r".to_owned(),
        Kind::Permits(count) => format!("p{count}"),
    }
}

/// What stands in a lock that readers share.
pub(in crate::backend::redis) const READERS: &str = "<readers>";
/// What stands in a lock of permits.
pub(in crate::backend::redis) const PERMITS: &str = "<permits>";

/// What stands in the lock for an owner.
pub(in crate::backend::redis::commands) fn marker(kind: Kind) -> &'static str {
    match kind {
        // Its owner stands there.
        Kind::Exclusive => "",
        Kind::Read => READERS,
        Kind::Permits(_) => PERMITS,
    }
}

/// The lock, its mark, its counter, its queue and its holders.
pub(super) fn keys(claim: &Claim) -> [String; 5] {
    let [lock, mark, counter, queue] = claim.key.with_helpers().names().map(str::to_owned);
    [lock, mark, counter, queue, claim.key.holders_key()]
}
