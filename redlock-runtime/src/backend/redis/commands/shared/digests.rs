//! Pins the digests of the scripts to those in docs/protocol.md.

use super::{acquire, downgrade, enqueue, raise, release, renew};
use crate::backend::redis::commands::Script;

/// All scripts.
static SCRIPTS: [(&Script, &str); 6] = [
    (&acquire::SCRIPT, "c04aa6d1beeadaa2574a72ba594cc31fd60a3324"),
    (&enqueue::SCRIPT, "75768a0a64e069ea571b791106a70c771e5f068b"),
    (&release::SCRIPT, "ca090bc25312f0b6032db27328fce24c72b4bbf1"),
    (&renew::SCRIPT, "ea8b63a4c43e76bef14a25aaef6698c0febec83d"),
    (&raise::SCRIPT, "db7a878f68cbf50599b20265f9cd8e28fd9919e6"),
    (&downgrade::SCRIPT, "e93b47e786e58be5d81ac6d6527badb61959e36e"),
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
