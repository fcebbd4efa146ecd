//! The accuracy of the time left that `longhaul cp` reports while it runs: real jobs over emulated paths, whose progress
//! lines are compared with when they ended. `make bench-eta` runs it and writes docs/results/eta.md.
//!
//! Does not know: how the estimate is made.

pub mod judge;
pub mod report;
pub mod run;
pub mod runs;
