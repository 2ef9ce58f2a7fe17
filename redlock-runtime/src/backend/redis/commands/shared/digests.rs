//! Pins the digests of the scripts to those in docs/protocol.md.

use super::{acquire, downgrade, enqueue, raise, release, renew};
use crate::backend::redis::commands::Script;

/// All scripts.
static SCRIPTS: [(&Script, &str); 6] = [
    (&acquire::SCRIPT, "d8b4ffb14545d71b814e7b0de24c1157f2e45c1a"),
    (&enqueue::SCRIPT, "fc7ba85d30fb70c6aec9ff352f6976658daa347b"),
    (&release::SCRIPT, "3b0ca7465aa3f8b9d2ae4269389cfe8e6a65bb59"),
    (&renew::SCRIPT, "cfaebf5519e0b24d721eb2705f1aa75fd21a173a"),
    (&raise::SCRIPT, "db7a878f68cbf50599b20265f9cd8e28fd9919e6"),
    (&downgrade::SCRIPT, "172ec3ff36c09e9c4eb18fad3f6d1745ffbdd6a2"),
];

/// The texts of all scripts.
pub(crate) fn scripts() -> [&'static str; 6] {
    SCRIPTS.map(|(script, _)| script.text())
}

#[test]
fn the_digests_are_pinned() {
    for (script, digest) in SCRIPTS {
        assert_eq!(script.digest(), digest, "{}", script.text());
    }
}
