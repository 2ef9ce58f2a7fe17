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
        (&acquire::SCRIPT, "a6d6061618015857c9f9a0d3932f64c0db17de04"),
        (&enqueue::SCRIPT, "6ea7206e4d732c9fe5781780752dae9e06f0d849"),
        (&release::SCRIPT, "3c8aad8baa5ad6951e8c4c518a0174e2ed2dc5d3"),
        (&renew::SCRIPT, "f17925e96f254897b4dc04287667bd458f5c3df8"),
        (&raise::SCRIPT, "e45e54f92d1dbfbdd0feb1da6857ce9136b48dc3"),
        (&downgrade::SCRIPT, "24a2e47773e36166257f52710530b01a48d7c731"),
    ] {
        assert_eq!(script.digest(), digest, "{}", script.text());
    }
}
