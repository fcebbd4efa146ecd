//! What a process needs beside the engine to be somebody's client: the state directory with its identity and grants
//! ([`StateDir`]), another node as the peer of a test ([`FarNode`]), and stores on other people's servers, opened by their address
//! ([`remote_store`]).
//!
//! What this crate does not know: command lines, the environment, what a node offers.

mod far_node;
pub mod remote_store;
mod state;

pub use far_node::FarNode;
pub use state::{StateDir, StateError};
