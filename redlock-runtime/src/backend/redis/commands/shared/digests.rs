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
        (&acquire::SCRIPT, "2a8a9ed50caa11303ece2bf6410b9aad97501062"),
        (&enqueue::SCRIPT, "89af2ad7b8120dedb268f7e9ff6ed003b15304c1"),
        (&release::SCRIPT, "0c044d1f904e23206491bb4a406adffad5d365a2"),
        (&renew::SCRIPT, "cb79320f242c0c5abd4250a816e456a26fde623a"),
        (&raise::SCRIPT, "742a0466ee4d64cef449588c3e40e2e0cb0786a0"),
        (&downgrade::SCRIPT, "77b80a46e6544327f38be0e8c4d8b8ce709a790c"),
    ] {
        assert_eq!(script.digest(), digest, "{}", script.text());
    }
}
