//! Clients that live for a moment, as jobs of cron do, on nodes that were restarted: what they see
//! themselves is never enough, and they go by the dates that they leave each other.

use std::sync::Arc;
use std::time::Duration;

use super::fake::{Fake, Fate, SECOND};
use super::restart_guard::{client, group, started, touch};
use crate::backend::{Cause, MemorySince, Witness};
use crate::clock::{Clock, Moment};
use crate::error::{LockError, NodeErrorKind};
use crate::options::Wait;

const EXPIRE: Duration = Duration::from_secs(10);
/// When a lease that began with a date is over for sure, as far as clocks tell.
const OVER: Duration = Duration::from_secs(13);
const DOWN: Fate = Fate::Refused(NodeErrorKind::Unreachable, false);
const HOUR: i64 = 3_600_000_000;

/// The nodes of a group of three that were restarted, with the names of their processes.
type Restarted = [(usize, &'static str)];

/// The node comes back, empty.
fn restart(node: &Fake) {
    node.take_founders();
}

/// A client that takes the lock, lets go of it and ends. It has met each restarted process just
/// now, and learns for how long others have watched it. The number of nodes without a vote, if it
/// does not get the lock.
async fn run(nodes: &[Arc<Fake>], restarted: &Restarted) -> Result<(), usize> {
    for (node, run_id) in restarted {
        let witness = nodes[*node].founders().and_then(|founders| Witness::find(&founders));
        let witness = witness.filter(|witness| *witness.run_id == **run_id);
        started(&nodes[*node], run_id, witness.map_or(Duration::ZERO, |seen| seen.watched_for));
    }
    let redlock = client(nodes);
    let got = redlock.lock("k").expire(EXPIRE).wait(Wait::Never).acquire().await;
    let outcome = match got {
        Ok(guard) => {
            guard.release().await.unwrap();
            Ok(())
        }
        Err(LockError::Unavailable { nodes, .. }) => {
            let quarantined = nodes.iter().filter(|node| node.kind() == NodeErrorKind::Quarantined);
            Err(quarantined.count())
        }
        Err(error) => panic!("{error}"),
    };
    // What it has begun comes to an end.
    tokio::time::sleep(Duration::from_millis(1)).await;
    outcome
}

/// A group whose last node is down, and another one was restarted and met by one client.
async fn short_of_a_vote() -> Vec<Arc<Fake>> {
    let nodes = group(3).await;
    touch(&client(&nodes)).await;
    restart(&nodes[1]);
    nodes[2].always(Some(DOWN));
    nodes[2].tells_nothing();
    assert_eq!(run(&nodes, RESTARTED).await, Err(1));
    nodes
}

const RESTARTED: &Restarted = &[(1, "run1b")];

#[tokio::test(start_paused = true)]
async fn a_restarted_node_votes_for_them_when_what_it_forgot_is_over() {
    let nodes = short_of_a_vote().await;
    for _ in 0..10 {
        tokio::time::sleep(SECOND).await;
        assert_eq!(run(&nodes, RESTARTED).await, Err(1));
    }
    tokio::time::sleep(OVER.saturating_sub(EXPIRE)).await;
    assert_eq!(run(&nodes, RESTARTED).await, Ok(()));
    // Also a day later.
    tokio::time::sleep(Duration::from_secs(24 * 3600)).await;
    assert_eq!(run(&nodes, RESTARTED).await, Ok(()));
}

/// One after the other, days apart: each was tolerable.
#[tokio::test(start_paused = true)]
async fn two_of_three_nodes_that_were_restarted_make_a_quorum_again() {
    let nodes = group(3).await;
    touch(&client(&nodes)).await;
    let mut restarted: Vec<(usize, &str)> = Vec::new();
    for next in [(1, "run1b"), (2, "run2b")] {
        restart(&nodes[next.0]);
        restarted.push(next);
        assert_eq!(run(&nodes, &restarted).await, Ok(()), "two others vote");
        tokio::time::sleep(24 * 3600 * SECOND).await;
    }
    assert_eq!(run(&nodes, &restarted).await, Ok(()));
    nodes[0].always(Some(DOWN));
    assert_eq!(run(&nodes, &restarted).await, Ok(()));
}

/// A clock that jumps forward says that enough time has passed.
#[tokio::test(start_paused = true)]
async fn a_clock_that_jumps_shortens_no_wait() {
    let nodes = group(3).await;
    touch(&client(&nodes)).await;
    restart(&nodes[1]);
    assert_eq!(run(&nodes, RESTARTED).await, Ok(()), "two others vote");
    tokio::time::sleep(SECOND).await;
    nodes[0].clock_offset(HOUR);
    // A node whose clock is off has no vote for a client that begins.
    assert_eq!(run(&nodes, RESTARTED).await, Err(2));
}

/// It may have been set right after the start of the server.
#[tokio::test(start_paused = true)]
async fn the_clock_of_the_node_in_doubt_is_not_asked() {
    let nodes = short_of_a_vote().await;
    // The only other clock is that of another process, which has kept all of its data.
    nodes[0].recalls(MemorySince::new("run0b".into(), Moment::ZERO, Cause::Started));
    nodes[0].take_founders();
    tokio::time::sleep(OVER).await;
    assert_eq!(run(&nodes, RESTARTED).await, Err(1));
    tokio::time::sleep(OVER).await;
    assert_eq!(run(&nodes, RESTARTED).await, Ok(()));
}

/// The address may have led to another process in between, which has granted locks meanwhile.
#[tokio::test(start_paused = true)]
async fn dates_count_for_a_client_that_knew_no_other_process_there() {
    let nodes = short_of_a_vote().await;
    let (resident, found) = (client(&nodes), nodes[1].founders());
    started(&nodes[1], "run1c", Duration::ZERO);
    tokio::time::sleep(OVER).await;
    let request = || resident.lock("k").expire(EXPIRE).wait(Wait::Never).acquire();
    request().await.unwrap().release().await.unwrap();
    nodes[1].state().founders = found;
    nodes[1].recalls(MemorySince::new("run1b".into(), Clock::Tokio.now(), Cause::Restarted));
    assert!(request().await.is_err());
    assert_eq!(run(&nodes, RESTARTED).await, Ok(()));
}

/// Of another process, or of one whose clock jumped since.
#[tokio::test(start_paused = true)]
async fn dates_from_before_another_restart_are_over() {
    let nodes = short_of_a_vote().await;
    tokio::time::sleep(OVER).await;
    // It comes back with the list.
    let again: &Restarted = &[(1, "run1c")];
    assert_eq!(run(&nodes, again).await, Err(1));
    tokio::time::sleep(OVER).await;
    assert_eq!(run(&nodes, again).await, Ok(()));
    let found = nodes[1].founders().unwrap();
    assert!(!found.contains("run1b") && found.contains("run1c=@client:"), "{found}");
}

/// There is no other clock. One that waits leaves its note for those that follow.
#[tokio::test(start_paused = true)]
async fn a_single_node_votes_for_them_when_one_of_them_has_waited() {
    let nodes = group(1).await;
    let alone: &Restarted = &[(0, "run0b")];
    for _ in 0..3 {
        assert_eq!(run(&nodes, alone).await, Err(1));
        tokio::time::sleep(OVER).await;
    }
    started(&nodes[0], "run0b", Duration::ZERO);
    let redlock = client(&nodes);
    let request = |wait| redlock.lock("k").expire(EXPIRE).wait(wait).acquire();
    let error = request(Wait::Never).await.unwrap_err().to_string();
    assert!(error.contains("no other server can tell"), "{error}");
    request(Wait::AtMost(OVER)).await.unwrap().release().await.unwrap();
    drop(redlock);
    assert_eq!(run(&nodes, alone).await, Ok(()));
}

/// A client that stands still while it leaves its note reads then what another one noted later.
#[tokio::test(start_paused = true)]
async fn what_is_read_late_makes_no_date_too_early() {
    let nodes = group(3).await;
    touch(&client(&nodes)).await;
    restart(&nodes[1]);
    started(&nodes[1], "new", Duration::ZERO);
    let met = Clock::Tokio.wall_micros() / 1000;
    nodes[1].state().founders = Some("run0 run1 run2 new=0".to_owned());
    let late = client(&nodes);
    touch(&late).await;
    tokio::time::sleep(2 * SECOND).await;
    nodes[1].always(Some(Fate::Late(10 * SECOND)));
    touch(&late).await;
    tokio::time::sleep(9 * SECOND).await;
    nodes[1].state().founders = Some("run0 run1 run2 new=11000".to_owned());
    tokio::time::sleep(20 * SECOND).await;
    let noted = Witness::find(&nodes[1].founders().unwrap()).unwrap();
    assert!(noted.watched_for > 11 * SECOND, "it has read and noted: {noted}");
    assert!(noted.dates["client"] >= met, "{noted}: {met}");
}
