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
        (&acquire::SCRIPT, "dc525bb3a127d82fb5d71f97a74443cc6f24e159"),
        (&enqueue::SCRIPT, "7a7d1af06965419bc1035806f60017cac0bc2452"),
        (&release::SCRIPT, "78dfdcfdecc2a7eb60ad0315bb1c00165ea69066"),
        (&renew::SCRIPT, "f17925e96f254897b4dc04287667bd458f5c3df8"),
        (&raise::SCRIPT, "e45e54f92d1dbfbdd0feb1da6857ce9136b48dc3"),
        (&downgrade::SCRIPT, "d0b54977a2bfe6e7a7ee0e3e73f42125f5211c95"),
    ] {
        assert_eq!(script.digest(), digest, "{}", script.text());
    }
}
