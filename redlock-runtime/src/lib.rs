//! redlock
