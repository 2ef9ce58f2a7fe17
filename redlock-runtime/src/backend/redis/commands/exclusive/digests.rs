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
    (&acquire::SCRIPT, "5b86c07c789b1b81811d4a886333569b9ff318d3"),
    (&acquire_all::SCRIPT, "853a4778f5eeaca0316ac0d42b1fa64691af0e4a"),
    (&batch::SCRIPT, "e79502b2e45d76729006dde56bbfdc1d9bbf9f20"),
    (&raise::SCRIPT, "082ca25f6aa33f3aca8b2c6f9c66397699c94c96"),
    (&renew::SCRIPT, "3c72f1f35c40413474ab35a3e0007ec27ba43612"),
    (&retain::SCRIPT, "8aee93c73f060c37bba195e7fab2a0800c52f7fa"),
    (&release_hint::SCRIPT, "234fa796c03803d6ea0e75ab3a24f899c631464a"),
    (&enqueue::SCRIPT, "62506cb106cab4c6a4ab9b22f9006ba52f5cf6db"),
    (&rotate::SCRIPT, "be10cc0807d3e2599de2ef2ab93d532197e0ec05"),
    (&nudge::SCRIPT, "ee424b8e03ae7102de74f575c9198a32e7e7265e"),
    (&release_all::SCRIPT, "a75f7b2caa6e5f25a7a25c140a2f382172eea5ed"),
    (&release::SCRIPT, "9558ee778d39928af903ee34d5d8353e7bf5e342"),
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
