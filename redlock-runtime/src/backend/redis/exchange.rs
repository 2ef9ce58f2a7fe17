//! One script sent to a node, and its answer or what is known without it.

use std::time::Duration;

use deadpool_redis::redis::aio::ConnectionLike;
use deadpool_redis::redis::{RedisResult, Value};
use tokio::time::Instant;

use super::diagnosis::diagnose;
use super::link::{Link, Loan};
use super::presence::CLOCK;
use super::replicas::MinReplicas;
use super::script::Script;
use super::source::Source;
use crate::backend::Fault;
use crate::clock::Moment;
use crate::error::{NodeError, NodeErrorKind};

/// Runs one script within the time given. A connection that broke, perhaps long ago and
/// unseen until now, is replaced once and the call repeated: every script may be repeated by
/// its owner.
pub(super) async fn exchange<S: Source, T>(
    node: &str,
    link: &Link<S>,
    call: Call<'_>,
    within: Duration,
    decode: impl Fn(&Value) -> Option<T>,
) -> Result<Answer<T, S::Connection>, Failure<S::Connection>> {
    let end = Instant::now() + within;
    let mut is_unknown = false;
    loop {
        let mut loan = match tokio::time::timeout_at(end, link.borrow()).await {
            Ok(Ok(loan)) => loan,
            Ok(Err(error)) => {
                let why = diagnose(node, &error);
                return Err(Failure::new(why.error, is_unknown, why.is_final));
            }
            Err(_) => return Err(no_connection(node, within, is_unknown)),
        };
        let sent = CLOCK.now();
        match tokio::time::timeout_at(end, call.send(&mut loan)).await {
            Ok(Ok((value, confirmed))) => {
                let Some(found) = decode(&value) else {
                    // Whatever answers there, its next reply may be just as wrong.
                    link.failed(&loan, call.keys[0]);
                    let failure = nonsense(node, &value);
                    return Err(Failure { unanswered: Some(loan), ..failure });
                };
                let was_cut = is_unknown;
                return Ok(Answer { found, was_cut, sent, confirmed, loan });
            }
            Ok(Err(error)) => {
                let why = diagnose(node, &error);
                if why.discard {
                    link.failed(&loan, call.keys[0]);
                }
                if why.broke && !is_unknown {
                    is_unknown = true;
                    continue;
                }
                return Err(Failure::new(why.error, is_unknown || why.broke, why.is_final));
            }
            Err(_) => {
                link.failed(&loan, call.keys[0]);
                let failure = no_reply(node, "no reply", within, true);
                return Err(Failure { unanswered: Some(loan), ..failure });
            }
        }
    }
}

/// A server without TLS takes the beginning of a handshake for half a command, and waits.
pub(super) fn no_connection<C>(node: &str, within: Duration, is_unknown: bool) -> Failure<C> {
    let is_secure = node.starts_with("rediss://");
    let hint = if is_secure { " (does the server speak TLS at this port?)" } else { "" };
    no_reply(node, &format!("no connection{hint}"), within, is_unknown)
}

pub(super) fn no_reply<C>(
    node: &str,
    what: &str,
    within: Duration,
    is_unknown: bool,
) -> Failure<C> {
    let message = format!("{what} within {} ms", within.as_millis());
    Failure::new(NodeError::new(node, NodeErrorKind::NoReply, message), is_unknown, false)
}

/// The reply was not of the script's form: something else answers there.
fn nonsense<C>(node: &str, value: &Value) -> Failure<C> {
    let message = format!("unexpected reply {value:?}");
    Failure::new(NodeError::new(node, NodeErrorKind::Protocol, message), true, false)
}

/// A script and what it is run on.
#[derive(Clone, Copy)]
pub(super) struct Call<'a> {
    pub(super) script: &'static Script,
    pub(super) keys: &'a [&'a str],
    pub(super) args: &'a [&'a str],
    pub(super) replicas: Option<MinReplicas>,
}

impl Call<'_> {
    /// The script's reply, and how many replicas confirmed it, where that was asked for.
    async fn send(
        self,
        loan: &mut Loan<impl ConnectionLike + Clone + Send>,
    ) -> RedisResult<(Value, RedisResult<u32>)> {
        let Self { script, keys, args, replicas } = self;
        let Some(replicas) = replicas else {
            return Ok((script.run(&mut loan.connection, keys, args).await?, Ok(0)));
        };
        let mut behind = loan.connection.clone();
        let (first, confirmed) = tokio::join!(
            biased;
            script.run_known(&mut loan.connection, keys, args),
            replicas.confirm(&mut behind)
        );
        if let Some(value) = first? {
            return Ok((value, confirmed));
        }
        // The server did not know the script: WAIT counted what was written before it.
        let (value, confirmed) = tokio::join!(
            biased;
            script.run_text(&mut loan.connection, keys, args),
            replicas.confirm(&mut behind)
        );
        Ok((value?, confirmed))
    }
}

/// What a script found.
pub(super) struct Answer<T, C> {
    pub(super) found: T,
    /// A try before this one broke off, and may have been carried out or land later.
    pub(super) was_cut: bool,
    pub(super) sent: Moment,
    /// How many replicas have it, where that was asked for.
    pub(super) confirmed: RedisResult<u32>,
    pub(super) loan: Loan<C>,
}

/// A call that failed, and the connection on which its reply may still come.
pub(super) struct Failure<C> {
    pub(super) error: NodeError,
    pub(super) is_unknown: bool,
    pub(super) is_final: bool,
    pub(super) unanswered: Option<Loan<C>>,
}

impl<C> Failure<C> {
    pub(super) fn new(error: NodeError, is_unknown: bool, is_final: bool) -> Self {
        Self { error, is_unknown, is_final, unanswered: None }
    }
}

impl<C> From<Failure<C>> for Fault {
    fn from(failure: Failure<C>) -> Self {
        let Failure { error, is_unknown, is_final, unanswered: _ } = failure;
        Self { nodes: vec![error], is_unknown, is_final }
    }
}
