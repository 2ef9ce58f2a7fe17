//! The clock on which moments of a server and its connections are counted.

use crate::clock::Clock;

pub(crate) const CLOCK: Clock = Clock::Boot;
