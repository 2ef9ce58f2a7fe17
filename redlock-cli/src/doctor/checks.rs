//! Which checks there are, and what concerns all servers together.

use std::collections::BTreeMap;

use redlock::{NodeError, NodeErrorKind, Wait};

use super::finding::Report;
use super::server::Known;
use super::sheet::Sheet;
use super::{rights, server};
use crate::failure::{Failure, UNAVAILABLE, in_own_words, told};
use crate::masters::Masters;
use crate::servers::{Servers, Topology};

/// Prints the findings about each place as soon as they are there.
pub(super) async fn all(servers: &Servers, sheet: &mut Sheet) -> Result<(), Failure> {
    let mut nodes = Vec::new();
    match Masters::of(servers)?.find(&mut nodes).await {
        // A cluster of which no server answers.
        Err(error) if error.code == UNAVAILABLE => {
            let mut report = Report::of_all("the cluster");
            report.bad("reachable", error.message);
            return Ok(sheet.print(&mut report)?);
        }
        found => found?,
    }
    let mut known = Vec::new();
    for mut node in nodes {
        let mut report = Report::of(node.name());
        known.push(server::check(&mut node, &servers.topology, &mut report).await);
        sheet.print(&mut report)?;
        if known.last().is_some_and(|known| known.is_reachable) {
            rights::check(&mut node, &servers.prefix, &mut report).await;
            sheet.print(&mut report)?;
        }
    }
    let mut together = Report::of_all(match &servers.topology {
        Topology::Masters(urls) if urls.len() == 1 => "the lock",
        Topology::Cluster(_) => "the cluster",
        _ => "all together",
    });
    if servers.topology.is_quorum() {
        majority(&known, &mut together);
    }
    sheet.print(&mut together)?;
    for mut report in try_lock(servers, &mut together).await {
        sheet.print(&mut report)?;
    }
    Ok(sheet.print(&mut together)?)
}

fn is_cluster(servers: &Servers) -> bool {
    matches!(servers.topology, Topology::Cluster(_))
}

fn majority(known: &[Known], report: &mut Report) {
    let (answer, all) = (known.iter().filter(|known| known.is_reachable).count(), known.len());
    let needed = all / 2 + 1;
    let text = format!("{answer} of {all} answer; {needed} make a lock");
    match answer {
        _ if answer < needed => report.bad("majority", format!("{text}: start the others")),
        _ if answer < all => report.doubtful("majority", format!("{text}: start the others")),
        _ if all % 2 == 0 => report.doubtful(
            "majority",
            format!("{text}; an odd number stands as many failures with a server less"),
        ),
        _ => report.good("majority", text),
    }
    let mut by_run: BTreeMap<&str, usize> = BTreeMap::new();
    for run_id in known.iter().filter_map(|known| known.run_id.as_deref()) {
        *by_run.entry(run_id).or_default() += 1;
    }
    if by_run.values().any(|times| *times > 1) {
        report.bad("independent", "two of the URLs lead to the same server; each counts once only");
    }
}

/// Takes a lock and releases it, as a service would. Returns what is found of single servers: those
/// that were restarted may have no vote for it. Of a cluster it reports also what keeps locks of
/// other slots from being taken.
async fn try_lock(servers: &Servers, report: &mut Report) -> Vec<Report> {
    let key = rights::random_name();
    let mut without_vote = Vec::new();
    let outcome = async {
        let redlock = servers.builder().build().await?;
        let acquired = redlock.lock(key).wait(Wait::Never).acquire().await;
        for node in redlock.health().await.nodes() {
            match node.error() {
                Some(error) if is_without_vote(error) => {
                    let mut report = Report::of(node.node());
                    report.doubtful("vote", error.message());
                    without_vote.push(report);
                }
                Some(error) if is_cluster(servers) => report.bad("slots", told(error)),
                _ => {}
            }
        }
        let guard = acquired?;
        let fencing_token = guard.fencing_token();
        guard.release().await?;
        Ok::<_, redlock::LockError>(fencing_token)
    };
    match outcome.await {
        Ok(fencing_token) => {
            report.good("locking", format!("a lock was taken and released, token {fencing_token}"));
        }
        Err(error) => report.bad("locking", in_own_words(&error.to_string())),
    }
    without_vote
}

fn is_without_vote(error: &NodeError) -> bool {
    error.kind() == NodeErrorKind::Quarantined
}

#[cfg(test)]
mod tests {
    use super::super::finding::Grade;
    use super::*;

    /// What is found of masters, of which some answer.
    fn found(answer: usize, of: usize, run_id: fn(usize) -> usize) -> Vec<(&'static str, Grade)> {
        let known = |n: usize| Known {
            is_reachable: n < answer,
            run_id: (n < answer).then(|| run_id(n).to_string()),
        };
        let mut report = Report::of_all("all together");
        majority(&(0..of).map(known).collect::<Vec<_>>(), &mut report);
        report.findings.iter().map(|finding| (finding.what, finding.grade)).collect()
    }

    #[test]
    fn a_majority_answers_and_better_all() {
        for (answer, of, grade) in [
            (3, 3, Grade::Good),
            (2, 3, Grade::Doubtful),
            (1, 3, Grade::Bad),
            (4, 4, Grade::Doubtful),
            (3, 4, Grade::Doubtful),
            (2, 4, Grade::Bad),
        ] {
            assert_eq!(found(answer, of, |n| n), [("majority", grade)], "{answer} of {of}");
        }
    }

    #[test]
    fn a_server_has_one_vote() {
        let twice = found(3, 3, |n| n / 2);
        assert_eq!(twice, [("majority", Grade::Good), ("independent", Grade::Bad)]);
    }
}
