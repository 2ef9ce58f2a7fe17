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
        (&acquire::SCRIPT, "fea4f282d8ebb527762afe7bc94aef254274f2de"),
        (&acquire_all::SCRIPT, "4b7acd50825218ab7b7951ef78b7e246b65d3abb"),
        (&batch::SCRIPT, "29e56758a503fad0996636abb7a58f8e7ad0698c"),
        (&raise::SCRIPT, "99d11f0389ae2286f224f789304a737cdd69c59e"),
        (&renew::SCRIPT, "cbffba6b79098bc650c3b9e18a0b3398907670e0"),
        (&retain::SCRIPT, "8aee93c73f060c37bba195e7fab2a0800c52f7fa"),
        (&release_hint::SCRIPT, "275d4c185a261d2f8d370765854ed9ea5ab1f36e"),
        (&enqueue::SCRIPT, "fc4fbe82258038e3f7eb750b1b8c0fb9d2c5f7a2"),
        (&rotate::SCRIPT, "89018fe3025777769a8043ee7c60e7fd1b384568"),
        (&nudge::SCRIPT, "4f6eefbd44ec338fdac9b9294deabad1db76f0ab"),
        (&release_all::SCRIPT, "fb47ec822de1a1229256a573b2d17a607c034aff"),
        (&release::SCRIPT, "aa26077daaef7da4692079adefd4dea7eddb7469"),
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
    let said = format!("\nlocal max_lead = {}\n", MIN_EXPIRE.as_micros());
    assert!(enqueue::SCRIPT.text().contains(&said), "{said}");
}
