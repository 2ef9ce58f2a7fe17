//! `redlock run`: a command under a lock.
//!
//! Three processes of this program take part. The first one takes the lock, renews it and ends the
//! command when the lock is lost. The second one, the watchdog, does the last of these when the
//! first one is killed or stopped. The third one becomes the command: it waits until the other two
//! are ready, and is replaced by the command then.

mod client;
mod command_line;
mod deadline;
mod descendants;
mod gate;
mod group;
mod messages;
mod moment;
mod process_table;
mod program;
mod refusal;
mod roles;
mod start;
mod supervisor;
mod terminal;
mod watchdog;

pub(crate) use roles::play;
pub(crate) use start::run;
