//! One Redis server as a backend. Redis replies and errors stop in this folder.

mod address;
mod diagnosis;
mod exchange;
mod link;
mod node;
mod offset;
mod presence;
mod probe;
mod replicas;
mod reply;
mod roll;
mod script;
mod source;
mod voter;

pub(crate) use node::{NodeOptions, RedisNode};
pub(crate) use replicas::MinReplicas;
