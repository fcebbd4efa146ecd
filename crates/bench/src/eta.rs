//! How good the time left is that `longhaul cp` tells while it runs: real jobs over emulated paths, and what their
//! progress lines foretold held against when they ended. `make bench-eta` runs it and writes docs/results/eta.md.
//!
//! Does not know: how the estimate is made.

pub mod judge;
pub mod report;
pub mod run;
pub mod runs;
