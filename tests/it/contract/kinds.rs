//! Readers, writers and permits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use redlock::{LockError, LostReason, Redlock, Released, Wait};
use tokio::task::JoinSet;

use super::acquire::dropped_at_any_poll_leaves_nothing;
use super::place::{KEY, Place};
use crate::support::{eventually, ms, secs, time_passes, within};

/// Is a reader kept out, so that a writer waits or holds the lock?
async fn keeps_readers_out(client: &Redlock) -> bool {
    client.lock(KEY).read().try_acquire().await.unwrap().is_none()
}

pub async fn readers_share_a_lock(place: &Place) {
    let (here, there) = (place.client().await, place.client().await);
    let one = here.lock(KEY).read().acquire().await.unwrap();
    let two = here.lock(KEY).read().acquire().await.unwrap();
    let three = there.lock(KEY).read().acquire().await.unwrap();
    assert!(one.fencing_token() < two.fencing_token());
    assert!(two.fencing_token() < three.fencing_token());
    assert_eq!(here.held().len(), 2);
    for client in [&here, &there] {
        let error = client.lock(KEY).wait(ms(300)).acquire().await.unwrap_err();
        let LockError::Timeout { holder: Some(holder), .. } = &error else { panic!("{error:?}") };
        assert!(holder.contains("readers"), "{error}");
    }
    // Any client of the key sees a holder.
    assert!(!place.is_free(KEY).await);
}

pub async fn a_writer_follows_the_last_reader(place: &Place) {
    let (here, there) = (place.client().await, place.client().await);
    let one = here.lock(KEY).read().acquire().await.unwrap();
    let two = there.lock(KEY).read().acquire().await.unwrap();
    let last = two.fencing_token();
    let writer = tokio::spawn(there.lock(KEY).wait(secs(30)).acquire());
    one.release().await.unwrap();
    assert!(!place.is_free(KEY).await);
    two.release().await.unwrap();
    let writer = writer.await.unwrap().unwrap();
    assert!(writer.fencing_token() > last);
    assert!(keeps_readers_out(&here).await);
    let reader = tokio::spawn(here.lock(KEY).read().wait(secs(30)).acquire());
    writer.release().await.unwrap();
    reader.await.unwrap().unwrap().release().await.unwrap();
    assert!(place.is_free(KEY).await);
}

pub async fn a_reader_does_not_pass_a_waiting_writer(place: &Place) {
    let (here, there) = (place.client().await, place.client().await);
    let reader = here.lock(KEY).read().acquire().await.unwrap();
    let writer = tokio::spawn(there.lock(KEY).wait(Wait::Forever).acquire());
    // Readers go on entering until the writer waits.
    eventually(secs(20), || keeps_readers_out(&here)).await;
    let late = here.lock(KEY).read().wait(Wait::Forever);
    let late = tokio::spawn(async move {
        let guard = late.acquire().await.unwrap();
        let token = guard.fencing_token();
        guard.release().await.unwrap();
        token
    });
    reader.release().await.unwrap();
    let writer = writer.await.unwrap().unwrap();
    let token = writer.fencing_token();
    writer.release().await.unwrap();
    let late = late.await.unwrap();
    // Without a queue on the server, whoever asks first after a release is served first.
    assert!(late > token || !place.has_queue());
}

/// So many readers, which come back at once until they are dropped: they overlap all the time.
fn readers_without_end(client: &Redlock, count: usize, time: Duration) -> JoinSet<()> {
    let mut readers = JoinSet::new();
    for _ in 0..count {
        let client = client.clone();
        readers.spawn(async move {
            loop {
                let guard = client.lock(KEY).read().wait(Wait::Forever).acquire().await.unwrap();
                time_passes(time).await;
                guard.release().await.unwrap();
            }
        });
    }
    readers
}

/// Many readers, each for a short time.
pub async fn a_writer_gets_its_turn_among_readers_in_a_hurry(place: &Place) {
    let (here, there) = (place.client().await, place.client().await);
    let _readers = readers_without_end(&here, 8, ms(2));
    for client in [&there, &here, &there] {
        let writer = client.lock(KEY).wait(secs(30)).acquire().await.expect("it gets its turn");
        writer.release().await.unwrap();
    }
}

pub async fn a_writer_gets_its_turn_among_readers_that_never_pause(place: &Place) {
    let (here, there) = (place.client().await, place.client().await);
    let _readers = readers_without_end(&here, 3, ms(30));
    for _ in 0..3 {
        let writer = there.lock(KEY).wait(secs(30)).acquire().await.expect("it gets its turn");
        writer.release().await.unwrap();
    }
}

/// The lock is free for a moment.
pub async fn a_reader_that_comes_back_at_once_does_not_pass_a_writer(place: &Place) {
    let (here, there) = (place.client().await, place.client().await);
    for _ in 0..5 {
        let reader = here.lock(KEY).read().acquire().await.unwrap();
        let writer = tokio::spawn(there.lock(KEY).wait(secs(30)).acquire());
        eventually(secs(20), || keeps_readers_out(&here)).await;
        reader.release().await.unwrap();
        assert!(keeps_readers_out(&here).await);
        writer.await.unwrap().expect("it gets its turn").release().await.unwrap();
    }
}

/// Never a writer beside anybody, and never more permits than there are.
pub async fn a_crowd_of_readers_and_writers_never_meets(place: &Place) {
    let clients = [place.client().await, place.client().await];
    // Readers count ones, a writer counts a thousand.
    let inside = Arc::new(AtomicU32::new(0));
    let mut tasks = JoinSet::new();
    for n in 0..8_usize {
        let (client, inside) = (clients[n % 2].clone(), inside.clone());
        tasks.spawn(async move {
            for round in 0..8 {
                let is_writer = (n + round) % 3 == 0;
                let request = client.lock(KEY).wait(Wait::Forever);
                let request = if is_writer { request } else { request.read() };
                let guard = request.acquire().await.unwrap();
                let weight = if is_writer { 1000 } else { 1 };
                let before = inside.fetch_add(weight, Ordering::SeqCst);
                assert!(if is_writer { before == 0 } else { before < 1000 }, "beside a writer");
                tokio::task::yield_now().await;
                inside.fetch_sub(weight, Ordering::SeqCst);
                guard.release().await.unwrap();
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    assert!(place.is_free(KEY).await);
}

pub async fn a_read_inside_of_a_write_re_enters(place: &Place) {
    let client = place.client().await;
    let nested = client.lock(KEY).run(async {
        let reader = client.lock(KEY).read().acquire().await.unwrap();
        reader.fencing_token()
    });
    nested.await.unwrap();
    let upgrade = client.lock(KEY).read().run(async {
        let again = client.lock(KEY).read().acquire().await.map(drop);
        (again, client.lock(KEY).acquire().await.map(drop))
    });
    let (again, write) = upgrade.await.unwrap();
    again.unwrap();
    assert!(matches!(write.unwrap_err(), LockError::AlreadyHeld { .. }));
    assert!(place.is_free(KEY).await);
}

pub async fn readers_are_renewed(place: &Place) {
    let client = place.client().await;
    let request = || client.lock(KEY).read().expire(secs(3));
    let (one, two) = (request().acquire().await.unwrap(), request().acquire().await.unwrap());
    eventually(secs(60), || async { one.renewals() >= 2 && two.renewals() >= 2 }).await;
    one.check().unwrap();
    two.check().unwrap();
    assert!(!place.is_free(KEY).await);
    drop((one, two));
    place.becomes_free(KEY).await;
}

/// A group that ended is over for good: whoever was in it finds itself gone.
pub async fn a_reader_does_not_survive_into_another_group(place: &Place) {
    let client = place.client().await;
    let old = client.lock(KEY).read().expire(secs(3)).acquire().await.unwrap();
    place.remove(KEY).await;
    let new = place.client().await.lock(KEY).read().acquire().await.unwrap();
    let reason = within(secs(20), old.lost()).await;
    assert!(matches!(reason, LostReason::Expired | LostReason::Stolen));
    new.check().unwrap();
    assert!(!place.is_free(KEY).await);
}

/// Readers and permits are groups of two kinds. Several masters have no permits.
pub async fn a_permit_finds_its_key_with_readers(place: &Place) {
    if place.has_several_masters() {
        return;
    }
    let client = place.client().await;
    let old = client.lock(KEY).permits(2).acquire().await.unwrap();
    place.remove(KEY).await;
    let new = place.client().await.lock(KEY).read().acquire().await.unwrap();
    assert_eq!(old.release().await.unwrap(), Released::Stolen);
    new.check().unwrap();
    assert!(!place.is_free(KEY).await);
}

pub async fn a_read_dropped_at_any_poll_leaves_nothing(place: &Place) {
    dropped_at_any_poll_leaves_nothing(place, &[KEY], |client| client.lock(KEY).read()).await;
}

pub async fn a_writer_becomes_a_reader_without_a_gap(place: &Place) {
    let (here, there) = (place.client().await, place.client().await);
    let writer = here.lock(KEY).acquire().await.unwrap();
    let token = writer.fencing_token();
    let next = tokio::spawn(there.lock(KEY).wait(secs(30)).acquire());
    let reader = writer.downgrade().await.unwrap();
    assert!(reader.fencing_token() > token);
    reader.check().unwrap();
    assert!(!next.is_finished());
    let last = reader.fencing_token();
    reader.release().await.unwrap();
    let next = next.await.unwrap().unwrap();
    assert!(next.fencing_token() > last);
    let reader = next.downgrade().await.unwrap();
    let beside = here.lock(KEY).read().acquire().await.unwrap();
    drop((reader, beside));
    place.becomes_free(KEY).await;
}

pub async fn a_lost_lock_is_not_downgraded(place: &Place) {
    let (client, writer) = place.held().await;
    place.steal(KEY, secs(60)).await;
    let error = writer.downgrade().await.unwrap_err();
    assert!(error.is_lost(), "{error}");
    assert!(client.held().is_empty());
    assert_eq!(place.owner(KEY).await.as_deref(), Some("thief"));
}

pub async fn permits_are_counted_or_refused(place: &Place) {
    let (here, there) = (place.client().await, place.client().await);
    let one = match here.lock(KEY).permits(2).acquire().await {
        Ok(one) => one,
        Err(error) => {
            assert!(place.has_several_masters(), "{error}");
            assert!(error.to_string().contains("where several masters decide"), "{error}");
            return;
        }
    };
    assert!(!place.has_several_masters());
    let two = there.lock(KEY).permits(2).acquire().await.unwrap();
    assert!(one.fencing_token() < two.fencing_token());
    assert!(here.lock(KEY).permits(2).try_acquire().await.unwrap().is_none());
    assert!(here.lock(KEY).read().try_acquire().await.unwrap().is_none(), "of another kind");
    let error = there.lock(KEY).wait(ms(300)).acquire().await.unwrap_err();
    assert!(error.to_string().contains("permits"), "{error}");
    // Who asks brings its own number.
    let three = here.lock(KEY).permits(3).acquire().await.unwrap();
    three.release().await.unwrap();
    let next = tokio::spawn(here.lock(KEY).permits(2).wait(secs(30)).acquire());
    one.release().await.unwrap();
    let next = next.await.unwrap().unwrap();
    drop((two, next));
    place.becomes_free(KEY).await;
    let zero = here.lock(KEY).permits(0).acquire().await.unwrap_err();
    assert!(matches!(zero, LockError::Config { .. }), "{zero}");
}

pub async fn never_more_than_the_permits(place: &Place) {
    if place.has_several_masters() {
        return;
    }
    let clients = [place.client().await, place.client().await];
    let inside = Arc::new(AtomicU32::new(0));
    let mut tasks = JoinSet::new();
    for n in 0..8 {
        let (client, inside) = (clients[n % 2].clone(), inside.clone());
        tasks.spawn(async move {
            for _ in 0..6 {
                let request = client.lock(KEY).permits(3).wait(Wait::Forever);
                let guard = request.acquire().await.unwrap();
                assert!(inside.fetch_add(1, Ordering::SeqCst) < 3, "more than three holders");
                tokio::task::yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
                guard.release().await.unwrap();
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    assert!(place.is_free(KEY).await);
}
