//! A batch that was sent, and those who wait for its answers.

use std::pin::Pin;
use std::task::{Context, Poll};

use deadpool_redis::redis::{RedisResult, Value};
use tokio::sync::oneshot;

use crate::backend::redis::commands::{Part, PartAnswer};
use crate::backend::redis::pubsub::broken;
use crate::shield::shielded;

/// `None`: the server does not know the script, and has done nothing.
pub(super) type BatchReply = Pin<Box<dyn Future<Output = RedisResult<Option<Value>>> + Send>>;

/// A batch whose script is on its way.
pub(super) struct SentBatch {
    pub(super) callers: Callers,
    pub(super) reply: BatchReply,
    pub(super) at_once: Poll<RedisResult<Option<Value>>>,
}

/// Those who wait for the answers of a batch that was sent.
pub(super) struct Callers(pub(super) Vec<Caller>);

/// One who waits for the answer to its part of a batch.
pub(super) struct Caller {
    pub(super) part: Part,
    pub(super) answer: oneshot::Sender<PartAnswer>,
}

impl Callers {
    /// Gives each caller its answer. Returns those whose answer is `None`: they are sent by
    /// themselves. `was_cut`: the answers are those to a second try, and the first one may have
    /// been carried out.
    pub(super) fn answer(
        &mut self,
        was_cut: bool,
        answers: impl Iterator<Item = Option<RedisResult<Value>>>,
    ) -> Vec<Caller> {
        let mut left_out = Vec::new();
        for (caller, answer) in std::mem::take(&mut self.0).into_iter().zip(answers) {
            match answer {
                // A caller that has gone has begun its clean-up.
                Some(reply) => {
                    let answer = PartAnswer::Replied { reply, was_cut };
                    _ = shielded(|| drop(caller.answer.send(answer)));
                }
                None => left_out.push(caller),
            }
        }
        left_out
    }

    /// `None`: all callers have gone. Dropping the reply then frees a connection that is silent.
    pub(super) fn poll_reply(
        &mut self,
        reply: &mut BatchReply,
        cx: &mut Context<'_>,
    ) -> Poll<Option<RedisResult<Option<Value>>>> {
        if let Poll::Ready(reply) = reply.as_mut().poll(cx) {
            return Poll::Ready(Some(reply));
        }
        let has_gone = |caller: &mut Caller| caller.answer.poll_closed(cx).is_ready();
        // Each of them is asked, as each of them has to wake this task.
        let gone = self.0.iter_mut().map(has_gone).filter(|has_gone| *has_gone).count();
        if gone == self.0.len() { Poll::Ready(None) } else { Poll::Pending }
    }
}

impl Drop for Callers {
    /// The callers that are left have no answer: the runtime of the connection has ended, and what
    /// the script did is unknown.
    fn drop(&mut self) {
        self.answer(false, std::iter::repeat_with(|| Some(Err(broken()))));
    }
}
