//! The accuracy of the remaining time that `longhaul cp` reports while it runs: the progress lines of real jobs over emulated
//! paths are compared with the time at which the jobs ended. `make bench-eta` runs it and writes docs/results/eta.md.
//!
//! Does not know: how the estimate is made.

pub mod judge;
pub mod report;
pub mod run;
pub mod runs;
