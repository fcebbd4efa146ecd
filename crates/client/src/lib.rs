//! What a client process needs beside the engine: the state directory with its identity and grants ([`StateDir`]), a node as the
//! peer of a test ([`RemoteNode`]), and stores on remote servers, opened by their URL ([`remote_store`]).
//!
//! What this crate does not know: command lines, the environment, what a node offers.
//!
//! The state directory of a client holds the identity that nodes know it by:
//!
//! ```
//! let dir = tempfile::tempdir()?;
//! let state = client::StateDir::open(dir.path())?;
//! assert!(state.path().is_dir());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `examples/copy.rs` copies a tree to a node with this crate.

mod remote_node;
pub mod remote_store;
mod state;

pub use remote_node::RemoteNode;
pub use state::{StateDir, StateError};
