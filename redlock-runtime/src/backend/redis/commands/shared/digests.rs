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
        (&acquire::SCRIPT, "8c040289822b100db461874f1aeb38ba591b1caf"),
        (&enqueue::SCRIPT, "84196675f95e1a54aa057396c04bf71f05e734f1"),
        (&release::SCRIPT, "9bf3d3b615c5f0aa15498630a3d40f60d27395a2"),
        (&renew::SCRIPT, "f17925e96f254897b4dc04287667bd458f5c3df8"),
        (&raise::SCRIPT, "e45e54f92d1dbfbdd0feb1da6857ce9136b48dc3"),
        (&downgrade::SCRIPT, "426343d5aeeb4bee9b8b12bd396d7b954a6e8610"),
    ] {
        assert_eq!(script.digest(), digest, "{}", script.text());
    }
}
