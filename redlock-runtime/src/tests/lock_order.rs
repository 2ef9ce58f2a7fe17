//! Nested locks: what an error says of the locks that its task holds.

use super::fake::{SECOND, client, fake};
use crate::error::LockError;
use crate::options::Wait;

fn while_holding(error: &LockError) -> &[String] {
    let LockError::Timeout { while_holding, .. } = error else { panic!("{error}") };
    while_holding
}

#[tokio::test(start_paused = true)]
async fn the_error_of_a_nested_lock_names_what_its_task_holds() {
    let (redlock, fake) = fake();
    let other = client(fake, 100);
    let _taken = other.lock("c").acquire().await.unwrap();
    let call = |wait: Wait| redlock.lock("c").wait(wait).acquire();
    let inside = Box::pin(redlock.lock("b").run(async {
        // A call that re-enters holds nothing more.
        let again = Box::pin(redlock.lock("a").run(call(SECOND.into())));
        (again.await.unwrap().unwrap_err(), call(Wait::Never).await.unwrap_err())
    }));
    let (waited, tried) = redlock.lock("a").run(inside).await.unwrap().unwrap();
    assert_eq!(while_holding(&waited), ["a", "b"]);
    let text = waited.to_string();
    assert!(text.contains("; this task holds `a`, `b` meanwhile: "), "{text}");
    assert!(while_holding(&tried).is_empty(), "a single attempt waits for nobody");
    let alone = call(SECOND.into()).await.unwrap_err();
    assert!(while_holding(&alone).is_empty());
    assert!(!alone.to_string().contains("meanwhile"), "{alone}");
}

#[tokio::test(start_paused = true)]
async fn a_task_that_waits_for_itself_by_another_client_is_told_so() {
    let (redlock, fake) = fake();
    let other = client(fake, 100);
    let nested = Box::pin(redlock.lock("b").run(redlock.lock("a").wait(SECOND).acquire()));
    let error = other.lock("a").run(nested).await.unwrap().unwrap().unwrap_err();
    assert_eq!(while_holding(&error), ["b", "a"]);
    let text = error.to_string();
    assert!(text.contains("; this task holds a lock of this key with another client: "), "{text}");
    assert!(text.contains("; this task holds `b` meanwhile: "), "{text}");
}
