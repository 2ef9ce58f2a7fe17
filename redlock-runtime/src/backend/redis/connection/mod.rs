//! Connections to a server: where they come from, and how they are shared.

pub(crate) mod address;
pub(crate) mod batching;
pub(crate) mod connect;
pub(crate) mod diagnosis;
pub(crate) mod dial;
pub(crate) mod ended;
pub(crate) mod host_lookup;
pub(crate) mod identified_source;
pub(crate) mod kept_open;
pub(crate) mod loan;
pub(crate) mod met_server;
pub(crate) mod replicas;
#[cfg(test)]
pub(crate) mod scripted;
pub(crate) mod shared;
pub(crate) mod source;
pub(crate) mod unasked;

pub(crate) use address::check_url;
pub(crate) use batching::Batching;
pub(crate) use diagnosis::{Diagnosis, HasRun, diagnose, is_of_server, is_withheld};
pub(crate) use identified_source::IdentifiedSource;
pub(crate) use kept_open::KeptOpen;
pub(crate) use loan::{LONGEST_SILENCE, Loan};
pub(crate) use met_server::{CountingConnections, MetServer, Superseded};
pub(crate) use replicas::{MinReplicas, ReplicaConnection, ReplicaConnections};
#[cfg(test)]
pub(crate) use scripted::{InTurn, Scripted, bulk, single_commands, unidentified, value};
pub(crate) use shared::SharedConnection;
pub(crate) use source::{Direct, Source};
