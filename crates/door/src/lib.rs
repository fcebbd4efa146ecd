//! The node's server.
