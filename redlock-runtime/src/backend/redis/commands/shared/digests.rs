//! Pins the digests of the scripts to those in docs/protocol.md.

use super::{acquire, downgrade, enqueue, raise, release, renew};
use crate::backend::redis::commands::Script;

/// The texts of all scripts.
pub(crate) fn scripts() -> [&'static str; 6] {
    [
        &acquire::SCRIPT,
        &enqueue::SCRIPT,
        &release::SCRIPT,
        &renew::SCRIPT,
        &raise::SCRIPT,
        &downgrade::SCRIPT,
    ]
    .map(Script::text)
}

#[test]
fn the_digests_are_pinned() {
    for (script, digest) in [
        (&acquire::SCRIPT, "0b51df38a0e9d41209837072f3f53cafc276fc30"),
        (&enqueue::SCRIPT, "a4c896a601d8bc26ff1585496948904fee333ac0"),
        (&release::SCRIPT, "327c2366b7cd32a8301ffc54218fa6676b67132e"),
        (&renew::SCRIPT, "b63bfab2c2e7d58e12988eee908ed64879597436"),
        (&raise::SCRIPT, "3c70d332ea382255209b910e6f8ba8515280b39e"),
        (&downgrade::SCRIPT, "548845816708f635b8c93c6116f3c847b0dfb95c"),
    ] {
        assert_eq!(script.digest(), digest, "{}", script.text());
    }
}
