//! The worker process: one subject, driven by the same loop as all others.

mod async_redis_lock;
mod attribute;
mod capture;
mod cell;
mod distkit;
mod distributed_lock;
mod drive;
mod guard;
mod kinds;
mod leases;
mod open;
mod ping;
mod pipelined;
mod places;
mod plain_set;
mod raw_scripts;
mod redis_lock;
mod reentry;
mod rslock;
mod run;
mod subject;
mod timer;

pub use run::run;
