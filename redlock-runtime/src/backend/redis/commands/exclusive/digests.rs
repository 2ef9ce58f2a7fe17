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
    (&renew::SCRIPT, "3c72f1f35c40413474ab35a3e0007ec27ba43612"),
    (&retain::SCRIPT, "8aee93c73f060c37bba195e7fab2a0800c52f7fa"),
    (&release_hint::SCRIPT, "275d4c185a261d2f8d370765854ed9ea5ab1f36e"),
    (&enqueue::SCRIPT, "3569b1e38d2081966a61a79c9ce06ff5ce847e50"),
    (&rotate::SCRIPT, "504bac2a084acdba931943011e3116298e87271e"),
    (&nudge::SCRIPT, "301ec90ea4df489991417c946411a4154403d18c"),
    (&release_all::SCRIPT, "3683c1e219afd1bf0cba5f9d50034c9d0d576feb"),
    (&release::SCRIPT, "d0c72ee94073d986b84de1c3c1a89c84ff75e093"),
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
