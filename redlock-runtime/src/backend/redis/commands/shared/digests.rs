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
        (&acquire::SCRIPT, "343b702d408f9a625732b39fd4c5a9df3a62abf3"),
        (&enqueue::SCRIPT, "a26d1f61488db078e5c368cecb41dfc92fbf6137"),
        (&release::SCRIPT, "f2595c91b39c26205c5959710a2696ef3e008abb"),
        (&renew::SCRIPT, "f17925e96f254897b4dc04287667bd458f5c3df8"),
        (&raise::SCRIPT, "e45e54f92d1dbfbdd0feb1da6857ce9136b48dc3"),
        (&downgrade::SCRIPT, "a64af9160eedb5cda5f3244b97468250c435a172"),
    ] {
        assert_eq!(script.digest(), digest, "{}", script.text());
    }
}
