use tokio::runtime::Handle;

use super::*;
use crate::backend::redis::clock::CLOCK;
use crate::backend::redis::connection::InTurn;
use crate::backend::redis::node_core::{NodeCore, NodeOptions};
use crate::backend::{Claim, Fault};
use crate::key::LockKey;
use crate::kind::Kind;
use crate::owner::Owner;

/// What a release finds as a part of a batch, on a connection with many others.
async fn found<const N: usize>(answers: [&'static str; N]) -> Result<Found, Fault> {
    let server = InTurn::new(answers);
    let core = NodeCore::new("n".to_owned(), server.clone(), NodeOptions::default());
    core.identity.info_denial.denied(Moment::NEVER);
    let route = Route::new(core).on(&Handle::current());
    let loan = route.connection.borrow().await.unwrap();
    let _others = vec![loan; 9];
    let claim = Claim {
        key: LockKey::new("lock:", "a").unwrap(),
        owner: Owner::of_nobody("t"),
        expire: Duration::from_secs(9),
        kind: Kind::Exclusive,
    };
    let release = Release::of(&claim);
    let joined = route.join(release, Duration::from_secs(60), CLOCK.now());
    let found = joined.expect("a batch forms").await;
    assert_eq!(server.left(), 0, "all answers were needed");
    found
}

const RELEASED: &str = "*1\r\n$2\r\n 1";
const LEFT_OUT: &str = "*1\r\n$2\r\n -";
const NONSENSE: &str = "*1\r\n$4\r\n odd";

#[tokio::test]
async fn a_release_is_answered_as_a_part_of_its_batch() {
    assert_eq!(found([RELEASED]).await, Ok(Found::Ours));
}

/// What the batch has left out was not carried out.
#[tokio::test]
async fn a_release_that_its_batch_has_left_out_is_sent_by_itself() {
    assert_eq!(found([LEFT_OUT, ":1"]).await, Ok(Found::Ours));
    assert_eq!(found([LEFT_OUT, ":0"]).await, Ok(Found::Gone));
}

/// The batch may have freed the lock: that it is gone then proves no loss.
#[tokio::test]
async fn a_release_whose_batch_has_no_proper_answer_is_sent_once_more() {
    assert_eq!(found(["", ":1"]).await, Ok(Found::Ours));
    assert_eq!(found(["", ":0"]).await, Ok(Found::Unclear));
    // Over another connection, on which no batch forms.
    assert_eq!(found([NONSENSE, ":1"]).await, Ok(Found::Ours));
    assert_eq!(found([NONSENSE, ":-1"]).await, Ok(Found::Unclear));
}
