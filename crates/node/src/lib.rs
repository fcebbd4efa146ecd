//! The node's server: one port for everything a node speaks. It listens, tells protocols apart by their first bytes,
//! lets in who holds a grant, and answers for its exports.
//!
//! What this crate does not know: command lines and settings files (the binary's), how blocks move (the engine's).
//! It accepts; what it carries to other nodes for its guests is dialled by the engine.

mod audit;
mod config;
mod crowd;
mod current;
mod digests;
pub mod exports;
mod far_node;
mod flows;
mod hall;
mod host;
mod http;
mod jobs;
mod listen;
mod locks;
mod lounge;
mod meters;
mod movers;
pub mod networks;
mod nics;
mod policy_file;
mod probes;
mod questions;
mod registry;
mod remembered;
pub mod responders;
mod secrets;
mod sniff;
pub mod state;
mod tls;
mod transfers;
mod trials;
mod warm;

pub use config::{Audit, NodeConfig, WebConfig};
pub use exports::{Export, ExportError};
pub use far_node::FarNode;
pub use http::origins::Origins;
pub use listen::{Node, NodeError, NodeJobs, Stop};
pub use movers::movers;
pub use networks::Networks;
pub use policy_file::PolicyFileError;
pub use responders::Responders;
pub use state::{StateDir, StateError};
pub use tls::SiteCertificate;
