//! Pins the digests of the scripts to those in docs/protocol.md.

use super::{acquire, downgrade, enqueue, raise, release, renew};
use crate::backend::redis::commands::Script;

/// The texts of all scripts.
pub(crate) fn scripts() -> [&'static str; 6] {
    [
        &acquire::SCRIPT,
        &enqueue::SCRIPT,
        &release::SCRIPT,
        &renew::SCRIPT,
        &raise::SCRIPT,
        &downgrade::SCRIPT,
    ]
    .map(Script::text)
}

#[test]
fn the_digests_are_pinned() {
    for (script, digest) in [
        (&acquire::SCRIPT, "b3b26948ab62a7f7cf0c5fcd6d777df983db6dd8"),
        (&enqueue::SCRIPT, "f13745222a6408db525ef5c4c315ecad2c7350be"),
        (&release::SCRIPT, "63475871c9aa532956015ac5ff07cbee41512b85"),
        (&renew::SCRIPT, "cb79320f242c0c5abd4250a816e456a26fde623a"),
        (&raise::SCRIPT, "742a0466ee4d64cef449588c3e40e2e0cb0786a0"),
        (&downgrade::SCRIPT, "5ca9a242e76608558f558571ed8b7f672098822f"),
    ] {
        assert_eq!(script.digest(), digest, "{}", script.text());
    }
}
