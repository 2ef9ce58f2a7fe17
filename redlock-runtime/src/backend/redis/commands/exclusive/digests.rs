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
        (&enqueue::SCRIPT, "744feec53c3935afe01f96a98fe09df7c274d954"),
        (&rotate::SCRIPT, "21ea86bd15a8a37a16c8aba4f73be5217d54b368"),
        (&nudge::SCRIPT, "c7666bcc62260d9f9284ca2ea08a9268d16d4474"),
        (&release_all::SCRIPT, "1fc5ec83a2d3ef1d3b26cc93fc4dc9f6d9293b7b"),
        (&release::SCRIPT, "3c89e89f368b2044324b5e6969a4ebc63f793edb"),
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
