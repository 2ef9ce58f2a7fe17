//! The part of a Redis server that the scripts of redlock use: strings, lists and sorted sets with
//! expiry, the publication of messages, and Lua scripts, which run in the interpreter that Redis
//! has.
//!
//! The clock is an argument, and a call returns when its command is done. The model follows Redis
//! 7.0 in what it does and in how replies become values of Lua and the reverse; a test of the suite
//! compares it with a real server (`tests/it/redis_model.rs`). A command, or a form of a command,
//! that the model does not know is an error.
//!
//! ```
//! use redis_model::{Reply, Script, Server};
//!
//! let mut server = Server::new([Script::new("return redis.call('PTTL', KEYS[1])")]);
//! server.set_clock(1_795_000_000_000_000, 0);
//! server.execute(&[b"SET", b"k", b"v", b"PX", b"70"]);
//! server.set_clock(1_795_000_000_050_000, 50);
//! let digest = server.digests().next().unwrap().to_owned();
//! let reply = server.execute(&[b"EVALSHA", digest.as_bytes(), b"1", b"k"]);
//! assert_eq!(reply, Reply::Int(20));
//! ```

mod arguments;
mod commands;
mod connection;
mod interpreter;
mod keyspace;
mod reply;
mod script;
mod server;
mod sorted_set;

pub use keyspace::{Content, Keyspace};
pub use reply::Reply;
pub use script::Script;
pub use server::Server;
pub use sorted_set::SortedSet;
