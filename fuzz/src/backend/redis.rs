//! The folder of the commands.

pub(crate) mod commands;
