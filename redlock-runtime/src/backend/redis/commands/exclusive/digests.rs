//! Pins the digests of the scripts to those in docs/protocol.md and docs/security.md.

use super::{
    acquire, acquire_all, batch, enqueue, nudge, raise, release, release_all, release_hint, renew,
    retain, rotate,
};
use crate::backend::CLAIM_WINDOW;
use crate::backend::redis::commands::Script;
use crate::options::MIN_EXPIRE;

/// The texts of all scripts.
pub(crate) fn scripts() -> [&'static str; 12] {
    [
        &acquire::SCRIPT,
        &acquire_all::SCRIPT,
        &batch::SCRIPT,
        &raise::SCRIPT,
        &renew::SCRIPT,
        &release_hint::SCRIPT,
        &release::SCRIPT,
        &release_all::SCRIPT,
        &enqueue::SCRIPT,
        &rotate::SCRIPT,
        &nudge::SCRIPT,
        &retain::SCRIPT,
    ]
    .map(Script::text)
}

#[test]
fn the_digests_are_pinned() {
    for (script, digest) in [
        (&acquire::SCRIPT, "864bf427e7439fac282b865030f3a7bf08911a70"),
        (&acquire_all::SCRIPT, "2719aaf76d16c7335034b21d2fd718fca7b2dd50"),
        (&batch::SCRIPT, "95637b6b5d5025375ec0b9588fe4eb9c28ea4a86"),
        (&raise::SCRIPT, "b4b98ed44b20a955d4edfc1efb9c2e451bacdd3e"),
        (&renew::SCRIPT, "e6f2822f93f95ec8bfc0f5296550c1f9008ecf13"),
        (&retain::SCRIPT, "95180046b52ed91779fa3964c9e12d469154f811"),
        (&release_hint::SCRIPT, "1c4bd18064bbe7158c25452e76ecc4bb3ea8aa5c"),
        (&enqueue::SCRIPT, "32019abe94de353cc7b6956f7216675bcce5e79b"),
        (&rotate::SCRIPT, "38e5fc313f8e2d9d02d8b1c2d7fb825dad0dfb4f"),
        (&nudge::SCRIPT, "dfd466414072ab36611ae38cf8c8b9b2061f5af4"),
        (&release_all::SCRIPT, "7a504f5be37fce6a332cc3347c0b10fffe430f38"),
        (&release::SCRIPT, "76d708cc736d233bdc42a74160873e80100535b9"),
    ] {
        assert_eq!(script.digest(), digest, "{}", script.text());
    }
}

#[test]
fn the_scripts_know_the_claim_window() {
    let said = format!("\nlocal claim_window = {}\n", CLAIM_WINDOW.as_millis());
    assert!(nudge::SCRIPT.text().contains(&said), "{said}");
}

#[test]
fn fencing_tokens_are_reserved_for_the_shortest_lease_at_most() {
    let said = format!("\nlocal lead = {}\n", MIN_EXPIRE.as_micros());
    assert!(enqueue::SCRIPT.text().contains(&said), "{said}");
}
