//! Automation that is not shipped: `cargo xtask <task>`, and the tidy test that checks the house rules.
#![allow(clippy::print_stdout, reason = "tasks print their progress and results")]

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
