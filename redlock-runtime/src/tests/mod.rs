//! The engines on a backend that fails on command, in virtual time.

mod acquire;
mod fake;
mod release;
mod renewal;
