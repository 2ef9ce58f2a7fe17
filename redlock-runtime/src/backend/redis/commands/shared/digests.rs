//! Pins the digests of the scripts to those in docs/protocol.md.

use super::{acquire, downgrade, enqueue, raise, release, renew};
use crate::backend::redis::commands::Script;

/// All scripts.
static SCRIPTS: [(&Script, &str); 6] = [
    (&acquire::SCRIPT, "1f0e0181db62ab30880ca9e0b30ff17b212d09fb"),
    (&enqueue::SCRIPT, "b57883a07840e116b6504e4203dd8255b4c33025"),
    (&release::SCRIPT, "7072d477c6012b97990ce727afa2a6f3f47c16ed"),
    (&renew::SCRIPT, "cfaebf5519e0b24d721eb2705f1aa75fd21a173a"),
    (&raise::SCRIPT, "db7a878f68cbf50599b20265f9cd8e28fd9919e6"),
    (&downgrade::SCRIPT, "d4ba7174a6e3d1b5ee844636bfdbd22bc0aa5cfd"),
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
