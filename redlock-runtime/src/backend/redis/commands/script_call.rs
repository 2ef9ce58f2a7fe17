//! A script call: the script, its keys, its arguments, and the replicas that have to confirm it.

use deadpool_redis::redis::aio::ConnectionLike;
use deadpool_redis::redis::{RedisResult, Value};

use super::script::{Invocation, Script};
use crate::backend::redis::connection::{Loan, MinReplicas};

/// A script to be run, and how.
pub(crate) struct ScriptCall {
    pub(crate) invocation: Invocation,
    pub(crate) replicas: Option<MinReplicas>,
    /// Running it twice has the effect of running it once.
    pub(crate) may_repeat: bool,
}

impl ScriptCall {
    pub(crate) fn new(script: &'static Script, keys: &[&str], args: &[&str]) -> Self {
        let invocation = Invocation::new(script, keys, args);
        Self { invocation, replicas: None, may_repeat: true }
    }

    /// The script's reply, and how many replicas confirmed it, if that was requested.
    pub(crate) async fn send(
        &self,
        loan: &mut Loan<impl ConnectionLike + Clone + Send>,
    ) -> RedisResult<(Value, RedisResult<u32>)> {
        match self.replicas {
            None => Ok((self.invocation.run(&mut loan.connection).await?, Ok(0))),
            Some(replicas) => Box::pin(self.send_and_confirm(replicas, loan)).await,
        }
    }

    async fn send_and_confirm(
        &self,
        replicas: MinReplicas,
        loan: &mut Loan<impl ConnectionLike + Clone + Send>,
    ) -> RedisResult<(Value, RedisResult<u32>)> {
        let mut behind = loan.connection.clone();
        let (first, confirmed) = tokio::join!(
            biased;
            self.invocation.run_known(&mut loan.connection),
            replicas.confirm(&mut behind)
        );
        if let Some(value) = first? {
            return Ok((value, confirmed));
        }
        // The server did not know the script: WAIT counted the writes before it.
        let (value, confirmed) = tokio::join!(
            biased;
            self.invocation.run_text(&mut loan.connection),
            replicas.confirm(&mut behind)
        );
        Ok((value?, confirmed))
    }
}
