//! What several servers say, all of which are asked at once.

use std::time::Duration;

use deadpool_redis::redis::RedisResult;
use tokio::time::{Instant, timeout_at};

use super::majority::is_majority;
use crate::backend::redis::connection::connect::Race;

/// What these many `servers` say; equal answers stand together, in the order in which the first of
/// each came. Waits until most of the servers have said the same, or all have answered or failed,
/// or the `grace` is over, which is told how long the first answer took: one that answers is
/// enough. An error: all have failed.
pub(super) async fn votes<T>(
    mut race: Race<'_, T>,
    servers: usize,
    grace: impl FnOnce(Duration) -> Duration,
    is_same: impl Fn(&T, &T) -> bool,
) -> RedisResult<Vec<Vec<T>>> {
    let begun = Instant::now();
    let mut said = vec![vec![race.won().await?]];
    let end = Instant::now() + grace(begun.elapsed());
    while said.iter().all(|equal| !is_majority(equal.len(), servers)) {
        let Ok(Ok(answer)) = timeout_at(end, race.won()).await else { break };
        match said.iter_mut().find(|equal| is_same(&equal[0], &answer)) {
            Some(equal) => equal.push(answer),
            None => said.push(vec![answer]),
        }
    }
    Ok(said)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::redis::connection::connect::ConnectAttempt;
    use crate::backend::redis::pubsub::broken;

    /// What servers say that answer after so many milliseconds (`None`: they fail), each as often
    /// as it was said, and when that is known.
    async fn asked(servers: &[(u64, Option<char>)]) -> (RedisResult<String>, u64) {
        let begun = Instant::now();
        let attempt = |(after, said): &(u64, Option<char>)| -> ConnectAttempt<'static, char> {
            let (after, said) = (Duration::from_millis(*after), *said);
            Box::pin(async move {
                tokio::time::sleep(after).await;
                said.ok_or_else(broken)
            })
        };
        let race = Race::to_servers(servers.iter().map(attempt));
        let grace = |took: Duration| took.max(Duration::from_millis(250));
        let said = votes(race, servers.len(), grace, |one, other| one == other).await;
        let millis = u64::try_from(begun.elapsed().as_millis()).unwrap();
        (said.map(|said| said.into_iter().flatten().collect()), millis)
    }

    async fn says(servers: &[(u64, Option<char>)], said: &str, millis: u64) {
        let (answer, took) = asked(servers).await;
        assert_eq!((answer.unwrap().as_str(), took), (said, millis));
    }

    const NEVER: u64 = 1_000_000;

    #[tokio::test(start_paused = true)]
    async fn what_most_say_counts_whoever_answers_first() {
        says(&[(1, Some('a')), (40, Some('b')), (90, Some('b'))], "abb", 90).await;
        says(&[(1, Some('a')), (2, Some('a')), (NEVER, Some('b'))], "aa", 2).await;
        says(&[(7, Some('a'))], "a", 7).await;
        // A majority of those that exist, not of those that have answered.
        let servers = [(1, Some('a')), (2, None), (3, Some('a')), (4, None), (5, Some('b'))];
        says(&servers, "aab", 5).await;
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_answers_is_enough() {
        says(&[(1, None), (30, Some('a')), (20, None)], "a", 30).await;
        says(&[(NEVER, None), (30, Some('a')), (NEVER, None)], "a", 280).await;
        let (error, took) = asked(&[(1, None), (30, None)]).await;
        assert!(error.is_err() && took == 30);
    }

    #[tokio::test(start_paused = true)]
    async fn far_servers_are_waited_for_while_the_grace_lasts() {
        says(&[(400, Some('a')), (790, Some('b')), (795, Some('b'))], "abb", 795).await;
        says(&[(400, Some('a')), (801, Some('b')), (NEVER, None)], "a", 800).await;
    }

    #[tokio::test(start_paused = true)]
    async fn equal_answers_stand_together_in_their_order() {
        says(&[(9, Some('b')), (8, Some('a'))], "ab", 9).await;
        let servers = [(8, Some('a')), (9, Some('b')), (10, Some('a')), (11, None), (12, None)];
        says(&servers, "aab", 12).await;
    }
}
