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
        (&acquire::SCRIPT, "fd6cc28fdd005f3cce076a3dc3e95d3445c76378"),
        (&enqueue::SCRIPT, "4dcecf309acfde9a8f53bf3ec4d295e15e9a4bef"),
        (&release::SCRIPT, "74f7096a10cb4e732dbd1ec1e3a1424470f1cdcc"),
        (&renew::SCRIPT, "82eda931affe8c696035051747a4a2c9db57c0b5"),
        (&raise::SCRIPT, "6dd0787fab2a9b55c9eb46ef7a8b236150189328"),
        (&downgrade::SCRIPT, "95fcfd894660aa611022b499e6ea7d2c7f1187db"),
    ] {
        assert_eq!(script.digest(), digest, "{}", script.text());
    }
}
