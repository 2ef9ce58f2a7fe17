//! Pins the digests of the scripts to those in docs/protocol.md.

use super::{acquire, downgrade, enqueue, raise, release, renew};
use crate::backend::redis::commands::Script;

/// All scripts.
static SCRIPTS: [(&Script, &str); 6] = [
    (&acquire::SCRIPT, "161bf46307decac9564358ef57c064824ab7c9ed"),
    (&enqueue::SCRIPT, "6610520860197821d14dfe7766fae1ad635c5f0d"),
    (&release::SCRIPT, "753ec7e289f8cc987f8bbdafe4a03e0d9fad26e8"),
    (&renew::SCRIPT, "ea8b63a4c43e76bef14a25aaef6698c0febec83d"),
    (&raise::SCRIPT, "db7a878f68cbf50599b20265f9cd8e28fd9919e6"),
    (&downgrade::SCRIPT, "342ca26af943e1397ced93aac0b6f866be0ce2f1"),
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
