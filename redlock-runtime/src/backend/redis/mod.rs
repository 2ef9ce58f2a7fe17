//! One Redis server as a backend. Redis replies and errors stop in this folder.

mod address;
mod diagnosis;
mod link;
mod node;
mod probe;
mod reply;
mod script;
mod source;

pub(crate) use node::RedisNode;
