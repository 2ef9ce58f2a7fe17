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
        (&acquire::SCRIPT, "5c0cabe9d48e095fd946c4cd6554109103c7fae1"),
        (&enqueue::SCRIPT, "e50e479f869cfad1f544786cb437906be879e293"),
        (&release::SCRIPT, "385e044ffb884a3d4d670c13d7d23175289750c5"),
        (&renew::SCRIPT, "f17925e96f254897b4dc04287667bd458f5c3df8"),
        (&raise::SCRIPT, "e45e54f92d1dbfbdd0feb1da6857ce9136b48dc3"),
        (&downgrade::SCRIPT, "81182593e19661e3f89e325578b4d69f26d9ada9"),
    ] {
        assert_eq!(script.digest(), digest, "{}", script.text());
    }
}
