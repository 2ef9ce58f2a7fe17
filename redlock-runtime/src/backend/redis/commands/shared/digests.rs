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
        (&acquire::SCRIPT, "01946470e640efade215ed0e23a725ce32db8193"),
        (&enqueue::SCRIPT, "e39877b3ed4f075b5e9414f9e5ea4b9623e50b2e"),
        (&release::SCRIPT, "f09cb41c58f56dcb4d02de34bb5aa8cad4aef058"),
        (&renew::SCRIPT, "82eda931affe8c696035051747a4a2c9db57c0b5"),
        (&raise::SCRIPT, "6dd0787fab2a9b55c9eb46ef7a8b236150189328"),
        (&downgrade::SCRIPT, "bca6aa4d4affbc9e8030e888d0c0568eaf743479"),
    ] {
        assert_eq!(script.digest(), digest, "{}", script.text());
    }
}
