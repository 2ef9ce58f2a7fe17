//! Pins the digests of the scripts to those in docs/protocol.md.

use super::{acquire, downgrade, enqueue, raise, release, renew};
use crate::backend::redis::commands::Script;

/// All scripts.
static SCRIPTS: [(&Script, &str); 6] = [
    (&acquire::SCRIPT, "c11f608b4ccbd8e92a2abf93c51572cae19fdf69"),
    (&enqueue::SCRIPT, "05a2d162b630eab95c09a6e40e82f7102fa2e99c"),
    (&release::SCRIPT, "9ba8ab378e03649a3a446b0045ece0340f2469fe"),
    (&renew::SCRIPT, "ea8b63a4c43e76bef14a25aaef6698c0febec83d"),
    (&raise::SCRIPT, "db7a878f68cbf50599b20265f9cd8e28fd9919e6"),
    (&downgrade::SCRIPT, "b4367b4cf77d8c2874de287500221a6e0474feec"),
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
