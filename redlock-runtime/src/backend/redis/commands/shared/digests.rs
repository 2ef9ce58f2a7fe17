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
        (&acquire::SCRIPT, "9504ea0d596f12d57efe6f9822f89af4a20184c1"),
        (&enqueue::SCRIPT, "ada52f8c347cda1a375ba3665f38ea7eba6c04bb"),
        (&release::SCRIPT, "f09cb41c58f56dcb4d02de34bb5aa8cad4aef058"),
        (&renew::SCRIPT, "82eda931affe8c696035051747a4a2c9db57c0b5"),
        (&raise::SCRIPT, "6dd0787fab2a9b55c9eb46ef7a8b236150189328"),
        (&downgrade::SCRIPT, "35b399a3a6a747ee9628c759201182ea163fcaaf"),
    ] {
        assert_eq!(script.digest(), digest, "{}", script.text());
    }
}
