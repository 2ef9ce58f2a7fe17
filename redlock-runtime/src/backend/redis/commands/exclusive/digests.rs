//! Pins the digests of the scripts to those in docs/protocol.md and docs/security.md.

use super::{
    acquire, acquire_all, batch, enqueue, nudge, raise, release, release_all, release_hint, renew,
    retain, rotate,
};
use crate::backend::CLAIM_WINDOW;
use crate::backend::redis::commands::Script;
use crate::options::MIN_EXPIRE;

/// The texts of all scripts.
pub(crate) fn scripts() -> [&'static str; 12] {
    [
        &acquire::SCRIPT,
        &acquire_all::SCRIPT,
        &batch::SCRIPT,
        &raise::SCRIPT,
        &renew::SCRIPT,
        &release_hint::SCRIPT,
        &release::SCRIPT,
        &release_all::SCRIPT,
        &enqueue::SCRIPT,
        &rotate::SCRIPT,
        &nudge::SCRIPT,
        &retain::SCRIPT,
    ]
    .map(Script::text)
}

#[test]
fn the_digests_are_pinned() {
    for (script, digest) in [
        (&acquire::SCRIPT, "783bd5302f39fee1de031e89595a33e3e14758ab"),
        (&acquire_all::SCRIPT, "a80dbb0f90772261dea350bdcf7bfb20441143df"),
        (&batch::SCRIPT, "ea0c20de39819540d8dc1e88bb4992c1a620f023"),
        (&raise::SCRIPT, "6e5b9298609e8f6c72c53308d307db6ab64b6dfc"),
        (&renew::SCRIPT, "e6f2822f93f95ec8bfc0f5296550c1f9008ecf13"),
        (&retain::SCRIPT, "95180046b52ed91779fa3964c9e12d469154f811"),
        (&release_hint::SCRIPT, "1c4bd18064bbe7158c25452e76ecc4bb3ea8aa5c"),
        (&enqueue::SCRIPT, "2752a920f2211adc887ed5ff99098a0d9e662dcd"),
        (&rotate::SCRIPT, "f5d8f236c143c121489d6ed2b633497ef41fb545"),
        (&nudge::SCRIPT, "e467e89790443d5715a912f5b96f71916e32d03c"),
        (&release_all::SCRIPT, "a7030d673e030e5d5fbfbf951ad6f3e9e8766402"),
        (&release::SCRIPT, "f74ab2c4fa9e6611bd7fbb25e813809a323d835f"),
    ] {
        assert_eq!(script.digest(), digest, "{}", script.text());
    }
}

#[test]
fn the_scripts_know_the_claim_window() {
    let said = format!("\nlocal claim_window = {}\n", CLAIM_WINDOW.as_millis());
    assert!(nudge::SCRIPT.text().contains(&said), "{said}");
}

#[test]
fn fencing_tokens_are_reserved_for_the_shortest_lease_at_most() {
    let said = format!("\nlocal lead = {}\n", MIN_EXPIRE.as_micros());
    assert!(enqueue::SCRIPT.text().contains(&said), "{said}");
}
