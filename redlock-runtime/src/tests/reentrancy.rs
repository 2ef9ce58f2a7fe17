//! Nested calls, and what they must not take for the lock that they hold.

use std::sync::Arc;

use super::fake::{client, fake};
use crate::lease::Lease;

#[tokio::test(start_paused = true)]
async fn a_nested_call_re_enters_what_its_task_holds_however_deep() {
    let (redlock, fake) = fake();
    let nested = async {
        let outer = Lease::current().unwrap().fencing_token();
        let inner = redlock.lock("b").run(async {
            let again = redlock.lock("a").try_acquire().await.unwrap().unwrap();
            (again.key().to_owned(), again.fencing_token())
        });
        assert_eq!(inner.await.unwrap(), ("a".to_owned(), outer));
    };
    redlock.lock("a").run(nested).await.unwrap();
    let log = fake.take_log();
    let verbs: Vec<_> = log.iter().map(|line| line.rsplit_once(' ').unwrap().0).collect();
    assert_eq!(verbs, ["acquire a", "acquire b", "release b", "release a"]);
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_another_client_holds_is_not_re_entered() {
    let (redlock, fake) = fake();
    let other = client(Arc::clone(&fake) as Arc<_>, 100);
    let nested = async { other.lock("a").try_acquire().await.unwrap().is_none() };
    assert!(redlock.lock("a").run(nested).await.unwrap());
}
