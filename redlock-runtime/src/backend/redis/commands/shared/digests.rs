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
        (&acquire::SCRIPT, "7816731ec123f4cbd38995b1c35dc51e60912ce0"),
        (&enqueue::SCRIPT, "f1b6881da2bd9acea669f2a9821b6dc6adab5118"),
        (&release::SCRIPT, "d48bcac5321e8ee1d252707064367acd89a0c37f"),
        (&renew::SCRIPT, "cb79320f242c0c5abd4250a816e456a26fde623a"),
        (&raise::SCRIPT, "742a0466ee4d64cef449588c3e40e2e0cb0786a0"),
        (&downgrade::SCRIPT, "19c4570dceef7a64960d72c14e51302f77144846"),
    ] {
        assert_eq!(script.digest(), digest, "{}", script.text());
    }
}
