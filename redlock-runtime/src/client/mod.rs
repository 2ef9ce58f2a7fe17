//! The client: what a program configures once and takes its locks from.

mod blocking;
mod builder;
mod connect;
#[cfg(any(feature = "sentinel", feature = "cluster"))]
mod failover;
#[cfg(any(test, feature = "test-util"))]
mod faulty;
mod health;
mod held;
mod into_redlock;
mod lead;
mod redlock;
mod request;
mod scope;
mod servers;
mod topology;

pub(crate) use blocking::check_may_block;
pub use builder::RedlockBuilder;
#[cfg(feature = "_operator")]
pub(crate) use builder::check_prefix;
pub use held::HeldLock;
pub use into_redlock::IntoRedlock;
pub use redlock::Redlock;
pub use request::LockRequest;
pub use scope::ClientScope;
pub(crate) use scope::in_scope;
