//! The commands, whose calls are not made here.

use deadpool_redis::redis::Cmd;

#[path = "../../../../redlock-runtime/src/backend/redis/commands/exclusive/mod.rs"]
pub(crate) mod exclusive;
#[path = "../../../../redlock-runtime/src/backend/redis/commands/part.rs"]
mod part;
#[path = "../../../../redlock-runtime/src/backend/redis/commands/reply.rs"]
pub(crate) mod reply;
#[path = "../../../../redlock-runtime/src/backend/redis/commands/shared/mod.rs"]
pub(crate) mod shared;

macro_rules! with_hand_over {
    ($(first $first:literal,)? $($file:literal),+) => {
        $crate::backend::redis::commands::Script::new(concat!($(include_str!($file)),+))
    };
}
pub(crate) use with_hand_over;

pub(crate) use self::part::{Part, Verb};

mod script {
    pub(crate) use super::Invocation;
}

pub(crate) struct Script;

impl Script {
    pub(crate) const fn new(_: &'static str) -> Self {
        Self
    }

    pub(crate) const fn loaded_with(self, _: &'static Self) -> Self {
        self
    }

    pub(crate) fn digest(&self) -> &'static str {
        ""
    }
}

pub(crate) struct Invocation;

impl Invocation {
    pub(crate) fn new<T>(_: &'static Script, _: &[T], _: &[T]) -> Self {
        Self
    }

    pub(crate) fn with(
        _: &'static Script,
        _: [usize; 2],
        _: usize,
        _: impl FnOnce(&mut Cmd),
    ) -> Self {
        Self
    }
}

pub(crate) struct ScriptCall {
    pub(crate) may_repeat: bool,
}

impl ScriptCall {
    pub(crate) fn new(_: &'static Script, _: &[&str], _: &[&str]) -> Self {
        Self { may_repeat: true }
    }

    pub(crate) fn batchable(_: Part) -> Self {
        Self { may_repeat: true }
    }
}
