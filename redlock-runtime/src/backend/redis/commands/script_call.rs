//! The call of a script, and how it leaves: by itself, or as a part of a batch.

use std::borrow::Cow;
use std::sync::Arc;

use deadpool_redis::redis::aio::ConnectionLike;
use deadpool_redis::redis::{RedisResult, Value};

use super::part::Part;
use super::script::{Invocation, Script};
use crate::backend::process;
use crate::backend::redis::connection::{Loan, MetServer, MinReplicas};

/// A script call: the script, its keys, its arguments, and the replicas that have to confirm it.
pub(crate) struct ScriptCall {
    pub(crate) content: Content,
    pub(crate) replicas: Option<MinReplicas>,
    /// Running it twice has the effect of running it once.
    pub(crate) may_repeat: bool,
    /// The only process of the server that may get it; `None`: whichever answers.
    pub(crate) only_at: Option<Arc<str>>,
}

/// What a call consists of.
pub(crate) enum Content {
    Script(Invocation),
    /// It becomes a script when it leaves by itself.
    Part(Part),
}

impl ScriptCall {
    pub(crate) fn new(script: &'static Script, keys: &[&str], args: &[&str]) -> Self {
        Self::of(Content::Script(Invocation::new(script, keys, args)))
    }

    /// A call that can be part of a batch.
    pub(crate) fn batchable(part: Part) -> Self {
        Self::of(Content::Part(part))
    }

    fn of(content: Content) -> Self {
        Self { content, replicas: None, may_repeat: true, only_at: None }
    }

    /// What can be part of a batch.
    pub(crate) fn part(&self) -> Option<&Part> {
        match &self.content {
            Content::Part(part) if self.replicas.is_none() => Some(part),
            _ => None,
        }
    }

    /// The script for this call alone.
    pub(crate) fn invocation(&self) -> Cow<'_, Invocation> {
        match &self.content {
            Content::Script(invocation) => Cow::Borrowed(invocation),
            Content::Part(part) => Cow::Owned(part.by_itself()),
        }
    }

    /// May the process that a connection has `met` get it?
    pub(super) fn is_for(&self, met: &MetServer) -> bool {
        let is_met = |only: &Arc<str>| met.run_id.as_deref() == Some(process(only));
        self.only_at.as_ref().is_none_or(is_met)
    }

    /// The first of its keys.
    pub(super) fn key(&self) -> Cow<'_, str> {
        match &self.content {
            Content::Script(invocation) => invocation.key(),
            Content::Part(part) => part.claim.key.redis_key().into(),
        }
    }

    /// The script's reply, and how many replicas confirmed it: zero where that was not requested.
    /// `was_cut` is set if it was sent a second time, and the first try may have been carried out.
    pub(crate) async fn send(
        &self,
        loan: &mut Loan<impl ConnectionLike + Clone + Send + Sync + 'static>,
        was_cut: &mut bool,
    ) -> RedisResult<(Value, RedisResult<u32>)> {
        if let Some(joined) = self.part().and_then(|part| loan.connection.join(|| part.clone()))
            && let Some(reply) = joined.await.noted_in(was_cut)
        {
            return Ok((reply?, Ok(0)));
        }
        // Boxed: the futures of all callers that wait for a batch would be larger.
        Box::pin(self.send_alone(loan)).await
    }

    async fn send_alone(
        &self,
        loan: &mut Loan<impl ConnectionLike + Clone + Send + Sync + 'static>,
    ) -> RedisResult<(Value, RedisResult<u32>)> {
        let (script, connection) = (self.invocation(), &mut loan.connection);
        match self.replicas {
            None => Ok((script.run(connection).await?, Ok(0))),
            Some(replicas) => replicas.run_confirmed(&script, connection).await,
        }
    }
}
