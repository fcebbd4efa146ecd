//! What the engine's integration tests share: a node and a client with a directory each, jobs between them, and a path that
//! misbehaves.

#![allow(dead_code, reason = "each test program uses its part")]

pub mod job;
#[path = "../../../node/tests/support/open_node.rs"]
pub mod open_node;
pub mod relay;
pub mod world;
