//! End to end: the real binary as node and client, over real sockets, on real files.
//!
//! Every test has nodes, clients, ports and directories of its own, so that all of them can run at once. Nothing here
//! waits for a fixed time: it waits for a fact, up to a deadline. What cannot run on a machine says so.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod access;
mod breaks;
mod cli;
mod client;
mod confinement;
mod ends;
mod guest;
mod hostile_clients;
mod hostile_nodes;
mod kept;
mod moves;
mod node;
mod options;
mod questions;
mod resume;
mod scripted_node;
mod space;
mod storage;
mod strangers;
mod targets;
mod tree;
mod wait;
mod wrappers;
