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
        (&acquire::SCRIPT, "001a0ecfedd6976db108840d4391d4aa8915338d"),
        (&enqueue::SCRIPT, "a4c896a601d8bc26ff1585496948904fee333ac0"),
        (&release::SCRIPT, "327c2366b7cd32a8301ffc54218fa6676b67132e"),
        (&renew::SCRIPT, "b63bfab2c2e7d58e12988eee908ed64879597436"),
        (&raise::SCRIPT, "742a0466ee4d64cef449588c3e40e2e0cb0786a0"),
        (&downgrade::SCRIPT, "548845816708f635b8c93c6116f3c847b0dfb95c"),
    ] {
        assert_eq!(script.digest(), digest, "{}", script.text());
    }
}
