//! Pins the digests of the scripts to those in docs/protocol.md.

use super::{acquire, downgrade, enqueue, raise, release, renew};
use crate::backend::redis::commands::Script;

/// All scripts.
static SCRIPTS: [(&Script, &str); 6] = [
    (&acquire::SCRIPT, "7c4a0dbe8bb404ba8b92609826ae6f61faef4a94"),
    (&enqueue::SCRIPT, "9cfb4904b322cce0745b6c9fe658fae8651243f3"),
    (&release::SCRIPT, "be303237dd0ab2fe414ce983d63fb685d39790fe"),
    (&renew::SCRIPT, "ea8b63a4c43e76bef14a25aaef6698c0febec83d"),
    (&raise::SCRIPT, "db7a878f68cbf50599b20265f9cd8e28fd9919e6"),
    (&downgrade::SCRIPT, "c4687a9d325ece90d6d3cca971d048314499100e"),
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
