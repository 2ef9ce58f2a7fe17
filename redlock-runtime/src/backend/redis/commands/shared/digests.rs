//! Pins the digests of the scripts to those in docs/protocol.md.

use super::{acquire, downgrade, enqueue, raise, release, renew};
use crate::backend::redis::commands::Script;

/// All scripts.
static SCRIPTS: [(&Script, &str); 6] = [
    (&acquire::SCRIPT, "ee7f758d709ffa41c1671b5926d29af0a157e715"),
    (&enqueue::SCRIPT, "c2f8263ab5534df3b85db78249b86f60265095fa"),
    (&release::SCRIPT, "0c757205209c939c7e073459dac973dc242259b3"),
    (&renew::SCRIPT, "cfaebf5519e0b24d721eb2705f1aa75fd21a173a"),
    (&raise::SCRIPT, "db7a878f68cbf50599b20265f9cd8e28fd9919e6"),
    (&downgrade::SCRIPT, "e7631ddbb87b4beb031cbd2dc3a43891ef318709"),
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
