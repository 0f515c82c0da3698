//! How large a cluster can get: a bottleneck model of one metadata server, its data servers, their links and their memory.
//!
//! Nothing here knows how the servers work. What an operation costs is measured ([`Costs`], by `ropewalk bench scale`).
//! The model says what many of them do on other [`Hardware`]. [`QueueNetwork`] has requests that wait for each other;
//! [`Costs::uses`] says which resource ends first. docs/benchmarks/scale.md explains both and says what the model
//! leaves out.
#![forbid(unsafe_code)]

mod cluster;
mod queue;

pub use cluster::{
    ClusterSize, Costs, Demand, Hardware, OperationCost, Resource, TransferCost, Use,
};
pub use queue::{QueueNetwork, Solution, Station};
