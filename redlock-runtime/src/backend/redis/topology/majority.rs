//! What most of several servers say, all of which are asked at once.

use std::time::Duration;

use deadpool_redis::redis::RedisResult;
use tokio::time::{Instant, timeout_at};

use crate::backend::redis::connection::connect::Race;

/// Once one server has answered, the others have as long again, within these bounds. Only servers
/// that are silent, or disagree, use that time up.
const SHORTEST_GRACE: Duration = Duration::from_millis(250);
const LONGEST_GRACE: Duration = Duration::from_secs(1);

/// What most of these many `servers` say; several answers, in the order in which they came, if as
/// many say something else, and always one. Waits until most of the servers have said the same, or
/// all have answered or failed, or the grace is over, `patience` at the latest: one that answers is
/// enough. An error: all have failed.
pub(super) async fn most<T>(
    mut race: Race<'_, T>,
    servers: usize,
    patience: Duration,
    is_same: impl Fn(&T, &T) -> bool,
) -> RedisResult<Vec<T>> {
    let begun = Instant::now();
    let mut said = vec![(race.won().await?, 1)];
    let grace = begun.elapsed().clamp(SHORTEST_GRACE, LONGEST_GRACE);
    let end = Instant::now() + grace.min(patience);
    while said.iter().all(|(_, votes)| *votes <= servers / 2) {
        let Ok(Ok(answer)) = timeout_at(end, race.won()).await else { break };
        match said.iter_mut().find(|(known, _)| is_same(known, &answer)) {
            Some((_, votes)) => *votes += 1,
            None => said.push((answer, 1)),
        }
    }
    let most = said.iter().map(|(_, votes)| *votes).max();
    said.retain(|(_, votes)| Some(*votes) == most);
    Ok(said.into_iter().map(|(answer, _)| answer).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::redis::connection::connect::ConnectAttempt;
    use crate::backend::redis::pubsub::broken;

    /// What servers say that answer after so many milliseconds (`None`: they fail), and when that
    /// is known.
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
        let said = most(race, servers.len(), PATIENCE, |one, other| one == other).await;
        let millis = u64::try_from(begun.elapsed().as_millis()).unwrap();
        (said.map(|said| said.into_iter().collect()), millis)
    }

    async fn says(servers: &[(u64, Option<char>)], said: &str, millis: u64) {
        let (answer, took) = asked(servers).await;
        assert_eq!((answer.unwrap().as_str(), took), (said, millis));
    }

    const PATIENCE: Duration = Duration::from_millis(900);
    const NEVER: u64 = 1_000_000;

    #[tokio::test(start_paused = true)]
    async fn what_most_say_counts_whoever_answers_first() {
        says(&[(1, Some('a')), (40, Some('b')), (90, Some('b'))], "b", 90).await;
        says(&[(1, Some('a')), (2, Some('a')), (NEVER, Some('b'))], "a", 2).await;
        says(&[(7, Some('a'))], "a", 7).await;
        // A majority of those that exist, not of those that have answered.
        says(&[(1, Some('a')), (2, None), (3, Some('b')), (4, None), (5, Some('b'))], "b", 5).await;
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_answers_is_enough() {
        says(&[(1, None), (30, Some('a')), (20, None)], "a", 30).await;
        says(&[(NEVER, None), (30, Some('a')), (NEVER, None)], "a", 280).await;
        let (error, took) = asked(&[(1, None), (30, None)]).await;
        assert!(error.is_err() && took == 30);
    }

    #[tokio::test(start_paused = true)]
    async fn far_servers_have_as_long_again_as_the_first_took_but_not_for_ever() {
        says(&[(400, Some('a')), (790, Some('b')), (795, Some('b'))], "b", 795).await;
        says(&[(400, Some('a')), (801, Some('b')), (NEVER, None)], "a", 800).await;
        says(&[(4000, Some('a')), (NEVER, None), (NEVER, None)], "a", 4900).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_tie_has_several_answers_in_their_order() {
        says(&[(9, Some('b')), (8, Some('a'))], "ab", 9).await;
        says(&[(8, Some('a')), (9, Some('b')), (10, None)], "ab", 10).await;
    }
}
