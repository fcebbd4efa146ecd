//! One job over two emulated paths: its rate, its split over the paths, and the cost of a cut. `make bench-several` runs it and
//! writes docs/results/several.md and movers.md.
//!
//! Does not know: how a client uses its paths. It counts the bytes that the lab's links carried.

pub mod report;
pub mod run;
