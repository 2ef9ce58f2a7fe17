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
        (&acquire::SCRIPT, "d36557c6c3c7fb0569d6291691d1dc11626a3bd1"),
        (&enqueue::SCRIPT, "5b823d7948a111862cd203407860457387ca4b0d"),
        (&release::SCRIPT, "c9daf1740398e39c9691d14b2a092755937ce880"),
        (&renew::SCRIPT, "2c047dd386a24e35bf30782c5caeccd0facd4846"),
        (&raise::SCRIPT, "6dd0787fab2a9b55c9eb46ef7a8b236150189328"),
        (&downgrade::SCRIPT, "37d6a1951ae302bb74fbc462a00499fdcee71f43"),
    ] {
        assert_eq!(script.digest(), digest, "{}", script.text());
    }
}
