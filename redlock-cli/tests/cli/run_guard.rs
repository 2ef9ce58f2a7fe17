//! For how long masters that were restarted have no vote.

use fault_kit::Masters;

use crate::support::{ended, tool};

/// Other clients may have longer leases than the one that meets the masters.
#[tokio::test]
async fn the_longest_lease_of_all_clients_can_be_told() {
    let masters = Masters::start(3).await;
    let urls = masters.urls().join(",");
    let first = ended(tool(&urls, &["run", "k", "true"]).spawn().unwrap()).await;
    assert_eq!((first.code, first.stderr.as_str()), (0, ""));
    for master in &masters[..2] {
        master.restart_empty().await;
    }
    let run = ["run", "-n", "k", "true"];
    let kept = ["run", "-n", "--min-hold", "2h", "k", "true"];
    let told = ["run", "-n", "--longest-expire", "2h", "k", "true"];
    let doctor = ["doctor", "--longest-expire", "2h"];
    for (variable, args, seconds) in [
        ("", &run[..], 0..60),
        ("2h", &run, 7_000..8_000),
        ("1s", &run, 0..60),
        ("", &kept, 7_000..8_000),
        ("1s", &told, 7_000..8_000),
        ("", &doctor, 7_000..8_000),
    ] {
        let mut refused = tool(&urls, args);
        let refused = refused.env("REDLOCK_LONGEST_EXPIRE", variable).spawn().unwrap();
        let refused = ended(refused).await;
        let said = refused.stdout + &refused.stderr;
        let left = said.split("no vote for another ").nth(1);
        let left = left.and_then(|left| left.split('.').next()?.parse().ok());
        let is_told = left.is_some_and(|left: u32| seconds.contains(&left));
        assert!(is_told && [2, 69].contains(&refused.code), "{variable} {args:?}: {said}");
    }
}
