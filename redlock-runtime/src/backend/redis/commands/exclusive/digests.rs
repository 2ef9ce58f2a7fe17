//! Pins the digests of the scripts to those in docs/protocol.md and docs/security.md.

use super::{
    acquire, acquire_all, batch, enqueue, nudge, raise, release, release_all, release_hint, renew,
    retain, rotate,
};
use crate::backend::CLAIM_WINDOW;
use crate::backend::redis::commands::Script;
use crate::options::MIN_EXPIRE;

/// All scripts.
static SCRIPTS: [(&Script, &str); 12] = [
    (&acquire::SCRIPT, "ab4359bf981b70f2cab2bac683793b5b436a793b"),
    (&acquire_all::SCRIPT, "4b7acd50825218ab7b7951ef78b7e246b65d3abb"),
    (&batch::SCRIPT, "5879d0303bff4c579e1018fb88a064c691cee2d4"),
    (&raise::SCRIPT, "251035e1467a8bc695fa464417d85705fb4bc6d6"),
    (&renew::SCRIPT, "cbffba6b79098bc650c3b9e18a0b3398907670e0"),
    (&retain::SCRIPT, "8aee93c73f060c37bba195e7fab2a0800c52f7fa"),
    (&release_hint::SCRIPT, "275d4c185a261d2f8d370765854ed9ea5ab1f36e"),
    (&enqueue::SCRIPT, "5640ca28849d117c2af1a2e355b09548eeb5f6fe"),
    (&rotate::SCRIPT, "edea43d49879d1ac7ee4297c45eb689ea21ad02a"),
    (&nudge::SCRIPT, "4725c8d5d999352375feb4912d31ef8ea88f53f3"),
    (&release_all::SCRIPT, "8b821609b938539039bea1d9706b2ee21ff0b11e"),
    (&release::SCRIPT, "b8066f107d858476caf3654ddc900935743c0e62"),
];

/// The texts of all scripts.
pub(crate) fn scripts() -> [&'static str; 12] {
    SCRIPTS.map(|(script, _)| script.text())
}

#[test]
fn the_digests_are_pinned() {
    for (script, digest) in SCRIPTS {
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
