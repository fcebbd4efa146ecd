//! Automation that is not shipped: `cargo xtask <task>`, and the tidy test that holds the house rules.
#![allow(clippy::print_stdout, reason = "tasks talk to the one who called them")]

pub mod check;
pub mod demo;
pub mod fuzz;
pub mod package;
pub mod picture;
pub mod soak;
pub mod stress;
pub mod suite;
pub mod tidy;
pub mod try_deb;
