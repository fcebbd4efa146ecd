//! Tuning a data transfer node: what its settings and its paths allow, and why.
//!
//! What this crate does not know: command lines and how results are printed.

pub mod calc;
