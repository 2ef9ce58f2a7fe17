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
        (&acquire::SCRIPT, "85e083ec06e2deed713b1e3220691107e9e3ebcc"),
        (&enqueue::SCRIPT, "84196675f95e1a54aa057396c04bf71f05e734f1"),
        (&release::SCRIPT, "f07c87d0a35da7b79757951035bbdffd8e9f454c"),
        (&renew::SCRIPT, "f17925e96f254897b4dc04287667bd458f5c3df8"),
        (&raise::SCRIPT, "e45e54f92d1dbfbdd0feb1da6857ce9136b48dc3"),
        (&downgrade::SCRIPT, "426343d5aeeb4bee9b8b12bd396d7b954a6e8610"),
    ] {
        assert_eq!(script.digest(), digest, "{}", script.text());
    }
}
