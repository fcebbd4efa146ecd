//! The lab itself, measured: what it carries, how exact it is, and what TCP makes of its paths. `make bench-lab` runs it
//! and writes docs/results/lab.md and lab.svg.
//!
//! A [`bed::Bed`] is a lab of two sites with [`iperf`] at both ends; [`kernel`] is what their kernels counted, [`load`]
//! what others used meanwhile. Each part measures and tells its own table; [`picture`] draws the grid.

pub mod bed;
pub mod bottleneck;
pub mod ceiling;
pub mod course;
pub mod exact;
pub mod grid;
pub mod iperf;
pub mod kernel;
pub mod load;
pub mod memory;
pub mod picture;
pub mod report;
