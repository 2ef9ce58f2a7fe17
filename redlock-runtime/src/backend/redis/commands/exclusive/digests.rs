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
    (&acquire::SCRIPT, "4ea65aa556321da17511ac39fb3d9a1c52fa7860"),
    (&acquire_all::SCRIPT, "853a4778f5eeaca0316ac0d42b1fa64691af0e4a"),
    (&batch::SCRIPT, "e79502b2e45d76729006dde56bbfdc1d9bbf9f20"),
    (&raise::SCRIPT, "251035e1467a8bc695fa464417d85705fb4bc6d6"),
    (&renew::SCRIPT, "3c72f1f35c40413474ab35a3e0007ec27ba43612"),
    (&retain::SCRIPT, "8aee93c73f060c37bba195e7fab2a0800c52f7fa"),
    (&release_hint::SCRIPT, "275d4c185a261d2f8d370765854ed9ea5ab1f36e"),
    (&enqueue::SCRIPT, "053425f7e665d325ed61097b4f22376801c25733"),
    (&rotate::SCRIPT, "7a15b69ce0b21563f498db9e6773184c4a78125c"),
    (&nudge::SCRIPT, "6bd8d52089db9638b10fa8ca02325d2ff93cf3d4"),
    (&release_all::SCRIPT, "ada6267974a70ac89bd170babac24735e2b88f9f"),
    (&release::SCRIPT, "11842afb88714374bd1b85f27d4afaaf25b87b0a"),
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
