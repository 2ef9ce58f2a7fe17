//! Pins the digests of the scripts to those in docs/protocol.md.

use super::{acquire, downgrade, enqueue, raise, release, renew};
use crate::backend::redis::commands::Script;

/// All scripts.
static SCRIPTS: [(&Script, &str); 6] = [
    (&acquire::SCRIPT, "c885c738023f52af7e63927249437df0a35c5a5f"),
    (&enqueue::SCRIPT, "6d4deb7516b6062209b28e4880db67cc18dc88a0"),
    (&release::SCRIPT, "a1ce869ae4675b105f523ec5cd5dc3de7f291db0"),
    (&renew::SCRIPT, "cfaebf5519e0b24d721eb2705f1aa75fd21a173a"),
    (&raise::SCRIPT, "76dba025d78573595649350e715e72f817988543"),
    (&downgrade::SCRIPT, "2856843f00b3b433ba644ee5f2e51f82de3adf13"),
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
