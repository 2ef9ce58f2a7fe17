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
        (&acquire::SCRIPT, "d93305755a4929bf6f0d080fe82ea2896d2c844a"),
        (&enqueue::SCRIPT, "5e9d81424feaaecad192f8766d2ceff021ddffcd"),
        (&release::SCRIPT, "3f0e4c2d3d9dee8b0e4b1de6ca5405aeccbd2c3b"),
        (&renew::SCRIPT, "2c047dd386a24e35bf30782c5caeccd0facd4846"),
        (&raise::SCRIPT, "6dd0787fab2a9b55c9eb46ef7a8b236150189328"),
        (&downgrade::SCRIPT, "a6717472ade34130b81ca87e0e635886fb33af16"),
    ] {
        assert_eq!(script.digest(), digest, "{}", script.text());
    }
}
