//! Makes a connection in the background, with a time limit of its own.

use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use deadpool_redis::redis::{ErrorKind, RedisError, RedisResult};
use tokio::time::{sleep, timeout};

use super::batching::Batching;
use super::diagnosis::diagnose;
use super::identified_source::IdentifiedSource;
use super::source::{CONNECT, Source};
use crate::backend::redis::commands::{Invocation, Script};
use crate::backend::redis::pubsub::{broken, silent};

/// After how long a second connect attempt joins an unfinished one; each time after twice as long.
/// An attempt may have lost a packet, or get no answer at all.
const COMPANY: Duration = Duration::from_millis(250);

/// A new connection of `source` to a server that knows `script`: the first of several attempts that
/// succeeds.
pub(crate) async fn connect<S: Source>(
    source: &IdentifiedSource<S>,
    script: Option<&'static Script>,
) -> RedisResult<Batching<S::Connection>> {
    let attempt = || -> ConnectAttempt<'_, Batching<S::Connection>> {
        Box::pin(async move {
            let mut connection = source.connect().await?;
            if let Some(script) = script {
                // Without keys the script does nothing. Its answer does not matter.
                let _ = Invocation::new::<&str>(script, &[], &[]).run(&mut connection).await;
            }
            Ok(connection)
        })
    };
    if S::LEADS_TO_ONE {
        return first(attempt, COMPANY).await;
    }
    // A client of many servers has a limit of its own for each of them.
    timeout(CONNECT, attempt()).await.unwrap_or_else(|_| Err(silent()))
}

/// Begins one more attempt whenever no attempt has ended for a while. When its time is over, what
/// an attempt was told counts more than the silence of the others.
async fn first<'a, T>(
    mut begin: impl FnMut() -> ConnectAttempt<'a, T>,
    mut pause: Duration,
) -> RedisResult<T> {
    let (mut race, mut end) = (Race::to_one_server([begin()]), pin!(sleep(CONNECT)));
    loop {
        tokio::select! {
            biased;
            made = race.won() => return made,
            () = &mut end => return Err(race.failed.take().unwrap_or_else(silent)),
            () = sleep(pause) => {
                race.attempts.push(begin());
                pause *= 2;
            }
        }
    }
}

/// A connect attempt.
pub(crate) type ConnectAttempt<'a, T> = Pin<Box<dyn Future<Output = RedisResult<T>> + Send + 'a>>;

/// Several attempts at once, of which one has to succeed.
pub(crate) struct Race<'a, T> {
    attempts: Vec<ConnectAttempt<'a, T>>,
    /// The error so far that says most.
    failed: Option<RedisError>,
    /// An error so far that is final for its server.
    refusal: Option<RedisError>,
    /// How much an error says.
    weight: fn(&RedisError) -> u8,
}

impl<'a, T> Race<'a, T> {
    /// What the server said tells more than a connection that broke. A failed handshake is shown as
    /// an error of the connection, and says what the server has shown.
    fn to_one_server(attempts: impl IntoIterator<Item = ConnectAttempt<'a, T>>) -> Self {
        let weight =
            |error: &RedisError| u8::from(!error.is_io_error() || diagnose("", error).is_final);
        Self { attempts: attempts.into_iter().collect(), failed: None, refusal: None, weight }
    }

    /// An error is final only if it is so for each of the servers: another one may answer later.
    #[cfg(any(feature = "sentinel", feature = "cluster"))]
    pub(crate) fn to_servers(attempts: impl IntoIterator<Item = ConnectAttempt<'a, T>>) -> Self {
        let weight = |error: &RedisError| match error {
            _ if diagnose("", error).is_final => 0,
            _ if error.is_io_error() => 1,
            _ => 2,
        };
        Self { attempts: attempts.into_iter().collect(), failed: None, refusal: None, weight }
    }

    /// The first success, or the next one; an error when none is left that may succeed. Cancel
    /// safe.
    pub(crate) async fn won(&mut self) -> RedisResult<T> {
        std::future::poll_fn(|context| self.step(context)).await
    }

    fn step(&mut self, context: &mut Context<'_>) -> Poll<RedisResult<T>> {
        let mut at = 0;
        while let Some(attempt) = self.attempts.get_mut(at) {
            match attempt.as_mut().poll(context) {
                Poll::Pending => at += 1,
                Poll::Ready(Ok(made)) => {
                    drop(self.attempts.swap_remove(at));
                    return Poll::Ready(Ok(made));
                }
                Poll::Ready(Err(error)) => {
                    drop(self.attempts.swap_remove(at));
                    if diagnose("", &error).is_final {
                        self.refusal = Some(error.clone());
                    }
                    let weight = self.weight;
                    if self.failed.as_ref().is_none_or(|first| weight(first) < weight(&error)) {
                        self.failed = Some(error);
                    }
                }
            }
        }
        if !self.attempts.is_empty() {
            return Poll::Pending;
        }
        let failed = self.failed.take().unwrap_or_else(broken);
        let is_final = diagnose("", &failed).is_final;
        Poll::Ready(Err(match self.refusal.take() {
            Some(refusal) if !is_final && failed.is_io_error() => beside(&failed, &refusal),
            _ => failed,
        }))
    }
}

/// A connection that failed, and what another server said, which does not make the error final.
fn beside(failed: &RedisError, refusal: &RedisError) -> RedisError {
    let said = diagnose("", refusal).error;
    let detail = format!("{failed}; another server refuses: {}", said.message());
    (ErrorKind::Io, "no server can be used", detail).into()
}

#[cfg(test)]
mod tests {
    use deadpool_redis::redis::ErrorKind;
    use tokio::time::Instant;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn after<'a>(time: Duration, outcome: RedisResult<u32>) -> ConnectAttempt<'a, u32> {
        Box::pin(async move {
            tokio::time::sleep(time).await;
            outcome
        })
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_is_silent_gets_company_and_the_first_success_counts() {
        let start = Instant::now();
        let mut count = 0;
        let begin = || {
            count += 1;
            match count {
                1 => after(1000 * SECOND, Ok(1)),
                2 => after(SECOND / 4, Err(broken())),
                _ => after(SECOND / 4, Ok(count)),
            }
        };
        assert_eq!(first(begin, COMPANY).await.unwrap(), 3);
        assert_eq!(start.elapsed(), SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_is_slow_is_not_given_up_for_its_company() {
        let mut count = 0;
        let begin = || {
            count += 1;
            if count == 1 { after(3 * SECOND, Ok(1)) } else { after(SECOND, Err(broken())) }
        };
        assert_eq!(first(begin, COMPANY).await.unwrap(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn what_one_attempt_was_told_counts_more_than_the_silence_of_others() {
        let (start, refused) = (Instant::now(), || (ErrorKind::AuthenticationFailed, "no").into());
        let mut count = 0;
        let begin = || {
            count += 1;
            if count == 1 { after(SECOND, Err(refused())) } else { after(1000 * SECOND, Ok(1)) }
        };
        let error = first(begin, COMPANY).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AuthenticationFailed);
        assert_eq!(start.elapsed(), CONNECT);
        let silence = first(|| after(1000 * SECOND, Ok(1)), COMPANY).await.unwrap_err();
        assert!(silence.is_io_error(), "{silence}");
    }

    #[tokio::test(start_paused = true)]
    async fn when_all_have_failed_it_is_told_at_once() {
        let start = Instant::now();
        assert!(first(|| after(SECOND / 8, Err(broken())), COMPANY).await.is_err());
        assert_eq!(start.elapsed(), SECOND / 8);
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_server_said_tells_more_than_a_broken_connection() {
        let said = || RedisError::from((ErrorKind::AuthenticationFailed, "no"));
        for second in [1, 3] {
            let attempts = [after(2 * SECOND, Err(broken())), after(second * SECOND, Err(said()))];
            let error = Race::to_one_server(attempts).won().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::AuthenticationFailed);
        }
    }

    /// As the client library tells what was wrong with a certificate.
    #[cfg(feature = "tls")]
    #[tokio::test(start_paused = true)]
    async fn a_failed_handshake_stays_what_it_is_and_final() {
        let expired = rustls::Error::InvalidCertificate(rustls::CertificateError::Expired);
        let expired = || RedisError::from(std::io::Error::other(expired.clone()));
        assert!(expired().is_io_error());
        for second in [1, 3] {
            let broken = after(2 * SECOND, Err(broken()));
            let attempts = [broken, after(second * SECOND, Err(expired()))];
            let error = Race::to_one_server(attempts).won().await.unwrap_err();
            let told = diagnose("lock.internal", &error);
            assert!(told.is_final && told.error.kind() == crate::error::NodeErrorKind::Tls);
        }
        #[cfg(any(feature = "sentinel", feature = "cluster"))]
        {
            let attempts = [after(SECOND, Err(expired())), after(SECOND, Err(expired()))];
            let error = Race::to_servers(attempts).won().await.unwrap_err();
            assert!(diagnose("lock.internal", &error).is_final, "both servers say it");
        }
    }

    #[cfg(any(feature = "sentinel", feature = "cluster"))]
    #[tokio::test(start_paused = true)]
    async fn one_of_several_servers_alone_makes_no_error_final() {
        let refused = || RedisError::from((ErrorKind::AuthenticationFailed, "no"));
        let no_master = || RedisError::from((ErrorKind::MasterNameNotFoundBySentinel, "none"));
        let failed = async |errors: [RedisError; 3]| {
            let attempts = (1..).zip(errors).map(|(at, error)| after(at * SECOND, Err(error)));
            Race::to_servers(attempts).won().await.unwrap_err()
        };
        let said = async |errors| failed(errors).await.kind();
        assert_eq!(said([broken(), refused(), broken()]).await, ErrorKind::Io);
        assert_eq!(said([refused(), broken(), refused()]).await, ErrorKind::Io);
        let kind = ErrorKind::MasterNameNotFoundBySentinel;
        assert_eq!(said([refused(), no_master(), broken()]).await, kind);
        assert_eq!(said([no_master(), refused(), broken()]).await, kind);
        let kind = ErrorKind::AuthenticationFailed;
        assert_eq!(said([refused(), refused(), refused()]).await, kind);

        // The refusal is reported all the same.
        let both = diagnose("seed", &failed([refused(), broken(), broken()]).await);
        assert!(!both.is_final && both.broke());
        assert_eq!(both.error.kind(), crate::error::NodeErrorKind::Unreachable);
        let text = both.error.to_string();
        assert!(text.contains("another server refuses: no"), "{text}");
    }
}
