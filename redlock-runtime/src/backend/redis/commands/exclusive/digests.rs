//! The scripts are what docs/protocol.md and docs/security.md say they are.

use super::{acquire, enqueue, nudge, raise, release, release_hint, renew, rotate};
use crate::backend::CLAIM_WINDOW;
use crate::backend::redis::commands::Script;
use crate::options::MIN_EXPIRE;

/// The texts of all scripts.
pub(crate) fn scripts() -> [&'static str; 8] {
    [
        &acquire::SCRIPT,
        &raise::SCRIPT,
        &renew::SCRIPT,
        &release_hint::SCRIPT,
        &release::SCRIPT,
        &enqueue::SCRIPT,
        &rotate::SCRIPT,
        &nudge::SCRIPT,
    ]
    .map(Script::text)
}

#[test]
fn the_digests_are_pinned() {
    for (script, digest) in [
        (&acquire::SCRIPT, "783bd5302f39fee1de031e89595a33e3e14758ab"),
        (&raise::SCRIPT, "1b385ae38689f725891f2603742141ba08174932"),
        (&renew::SCRIPT, "e6f2822f93f95ec8bfc0f5296550c1f9008ecf13"),
        (&release_hint::SCRIPT, "20632bbef39757069aa270fb99e091f2140dd47b"),
        (&enqueue::SCRIPT, "cb62eb4969717192187b12f76923097f774bcc81"),
        (&rotate::SCRIPT, "7cc3f2b8109629c523c67e335ff710ffc942ceef"),
        (&nudge::SCRIPT, "6d583990b296ecc909928a3bb10b548a36752555"),
        (&release::SCRIPT, "65b1efc16d53e1143ac3680ce9f69d48271d85ae"),
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
