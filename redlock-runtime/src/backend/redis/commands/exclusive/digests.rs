//! Pins the digests of the scripts to those in docs/protocol.md and docs/security.md.

use super::{acquire, acquire_all, enqueue, nudge, raise, release, release_hint, renew, rotate};
use crate::backend::CLAIM_WINDOW;
use crate::backend::redis::commands::Script;
use crate::options::MIN_EXPIRE;

/// The texts of all scripts.
pub(crate) fn scripts() -> [&'static str; 9] {
    [
        &acquire::SCRIPT,
        &acquire_all::SCRIPT,
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
        (&acquire_all::SCRIPT, "1f7fbb828d755e4eaffad996dc0c8cc01450f83f"),
        (&raise::SCRIPT, "6e5b9298609e8f6c72c53308d307db6ab64b6dfc"),
        (&renew::SCRIPT, "e6f2822f93f95ec8bfc0f5296550c1f9008ecf13"),
        (&release_hint::SCRIPT, "67fe7e00c3818d883dd4fe4e87ac54ea1113c7c1"),
        (&enqueue::SCRIPT, "e31e95f0427f5063faee33928fbc31e5166d9500"),
        (&rotate::SCRIPT, "f0865ed8296e3919252bf0922b78d15e49bc2ac7"),
        (&nudge::SCRIPT, "06a85fea019fe097f09ebf4b32b39ceea7cac285"),
        (&release::SCRIPT, "e6b12f062d1655a3eaf4b4605d0586c52e8631b9"),
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
