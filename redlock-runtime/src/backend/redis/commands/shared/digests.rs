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
        (&acquire::SCRIPT, "d3f0ed409e61df8acc460914648ee6f0620f0c14"),
        (&enqueue::SCRIPT, "7208702c2434b6d49d3ae3b35f04a7a6a02486f5"),
        (&release::SCRIPT, "2e1cb72e70e10312c102035407a908dcdb9cc9cf"),
        (&renew::SCRIPT, "f17925e96f254897b4dc04287667bd458f5c3df8"),
        (&raise::SCRIPT, "3c70d332ea382255209b910e6f8ba8515280b39e"),
        (&downgrade::SCRIPT, "06c14982ea9c98c6478281031360dbe45005726b"),
    ] {
        assert_eq!(script.digest(), digest, "{}", script.text());
    }
}
