//! One job over two emulated paths: what it carries, how it is split, and what a cut costs. `make bench-several` runs it and
//! writes docs/results/several.md.
//!
//! Does not know: how a client uses its paths; it counts what the lab's links carried.

pub mod report;
pub mod run;
