//! Tuning a data transfer node: what its settings and its paths allow, and why.
//!
//! What this crate does not know: command lines and how results are printed.

pub mod apply;
pub mod audit;
pub mod calc;
pub mod compare;
mod facts;
mod finding;
pub mod host;
pub mod judge;
pub mod plan;
pub mod rule;
pub mod subjects;
pub mod target;
pub mod verify;
pub mod watch;
