//! The contract of a lock, one suite for every backend: each case is one function, and runs on
//! each place where locks can stand.

mod acquire;
mod fencing;
mod flush;
mod handles;
mod kinds;
mod leader;
mod options;
mod place;
mod reentry;
mod release;
mod renew;
mod run;
mod several;
mod suite;
mod wait;
