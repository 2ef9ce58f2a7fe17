//! Pins the digests of the scripts to those in docs/protocol.md.

use super::{acquire, downgrade, enqueue, raise, release, renew};
use crate::backend::redis::commands::Script;

/// All scripts.
static SCRIPTS: [(&Script, &str); 6] = [
    (&acquire::SCRIPT, "91c97cbf789e5a4f11d81436bfca6f918074d3f0"),
    (&enqueue::SCRIPT, "cdbd0318a987d5f34228eb3c4695d221ce4d2d1c"),
    (&release::SCRIPT, "d87fdc98effc5ad788705ce23b450276c6907f6b"),
    (&renew::SCRIPT, "53ed848273659dd357b23eb1b21a50128931f551"),
    (&raise::SCRIPT, "db7a878f68cbf50599b20265f9cd8e28fd9919e6"),
    (&downgrade::SCRIPT, "b9e6ba1c0b79f8cba350010565e2b0ded2f43127"),
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
