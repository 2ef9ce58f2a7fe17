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
        (&acquire::SCRIPT, "fa03b12bdb7cd89250c9383042077f173868c863"),
        (&enqueue::SCRIPT, "3aadaf1f491b9813713fc66b712906a597ecef15"),
        (&release::SCRIPT, "a7eef9c2197cdf4b73c19c88da66630fce5aab97"),
        (&renew::SCRIPT, "cb79320f242c0c5abd4250a816e456a26fde623a"),
        (&raise::SCRIPT, "742a0466ee4d64cef449588c3e40e2e0cb0786a0"),
        (&downgrade::SCRIPT, "c24c98c4d2b1eaab0eebde690b650b9f34cd4139"),
    ] {
        assert_eq!(script.digest(), digest, "{}", script.text());
    }
}
