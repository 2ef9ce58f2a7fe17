//! Pins the digests of the scripts to those in docs/protocol.md.

use super::{acquire, downgrade, enqueue, raise, release, renew};
use crate::backend::redis::commands::Script;

/// All scripts.
static SCRIPTS: [(&Script, &str); 6] = [
    (&acquire::SCRIPT, "d942b058c499f3ad3401fa6b8a5d6507d96ca160"),
    (&enqueue::SCRIPT, "9d9318d26ea4168f7757a050e314e1fc8bc8b442"),
    (&release::SCRIPT, "046ac47fa1da77e881ad06ec90cbc37282955abb"),
    (&renew::SCRIPT, "cfaebf5519e0b24d721eb2705f1aa75fd21a173a"),
    (&raise::SCRIPT, "76dba025d78573595649350e715e72f817988543"),
    (&downgrade::SCRIPT, "5a4d7b463d5bd4d4458b797bdabd406e486bdc06"),
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
