//! Shared by the engine's integration tests: a node and a client with a directory each, jobs between them, and a relay that makes
//! the path between them fail.

#![allow(dead_code, reason = "each test program uses a part of it")]

pub mod fixture;
pub mod job;
#[path = "../../../node/tests/support/open_node.rs"]
pub mod open_node;
pub mod relay;
