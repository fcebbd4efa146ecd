//! The server of a node: one port for all its protocols. It listens, recognises protocols by their first bytes, authenticates
//! clients, and serves the exports.
//!
//! What this crate does not know: command lines and settings files (the binary's), how blocks move (the engine's). It accepts
//! connections; the engine dials other nodes for delegated transfers.

mod access;
mod audit;
mod authorization;
mod callout;
mod claims;
mod clock;
mod config;
mod copies;
mod dead_properties;
mod dialling;
mod digests;
mod error;
pub mod exports;
mod fireflies;
mod flows;
mod holder_bound;
mod host;
mod http;
mod jobs;
mod locks;
mod measurements;
mod meters;
mod movers;
mod native_requests;
pub mod networks;
mod new_file;
mod nics;
mod node;
mod order_table;
mod origins;
mod policy_file;
mod port;
mod pscheduler;
pub mod responders;
mod retention;
mod root;
mod schedules;
mod scratch;
mod secrets;
mod services;
mod session_pool;
mod shutdown;
mod stream_rendezvous;
mod tape;
mod test_orders;
mod test_service;
mod transfers;
mod twamp;
mod unfinished;

pub use config::{ExerciseConfig, NodeConfig, WebConfig};
pub use error::NodeError;
pub use exports::{Export, ExportError};
pub use movers::{RootMovers, movers};
pub use networks::Networks;
pub use node::{Node, NodeJobs, Stop};
pub use origins::Origins;
pub use policy_file::PolicyFileError;
pub use responders::Responders;
pub use scratch::EXPORT as EXERCISE_EXPORT;
pub use serve::tls::Certificate;
pub use tape::TapeProgram;
pub use test_service::Audit;
