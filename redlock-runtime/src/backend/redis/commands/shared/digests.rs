//! Pins the digests of the scripts to those in docs/protocol.md.

use super::{acquire, downgrade, enqueue, raise, release, renew};
use crate::backend::redis::commands::Script;

/// All scripts.
static SCRIPTS: [(&Script, &str); 6] = [
    (&acquire::SCRIPT, "41f3a51000e3fec0f8ef9dc8c1278bbf75d25bd0"),
    (&enqueue::SCRIPT, "8ee796071f53bb65c7ddf3f7b359762bd412c6ed"),
    (&release::SCRIPT, "a76699f46825f6658f71990b1c819397ebb7523a"),
    (&renew::SCRIPT, "ea8b63a4c43e76bef14a25aaef6698c0febec83d"),
    (&raise::SCRIPT, "db7a878f68cbf50599b20265f9cd8e28fd9919e6"),
    (&downgrade::SCRIPT, "c78a28aa962984cb731b39045a40c358ca63505e"),
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
