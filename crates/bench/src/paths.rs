//! Measurements of the lab itself: its capacity, the accuracy of its counts, and the rates of TCP over its paths. `make bench-lab`
//! runs them and writes docs/results/lab.md and lab.svg.
//!
//! A [`bed::Bed`] is a lab of two sites with [`iperf`] at both ends; [`kernel`] reads the counters of the sites' kernels, [`load`]
//! the processor time of other processes. Each part measures and writes its own table; [`picture`] draws the grid.

pub mod bed;
pub mod bottleneck;
pub mod ceiling;
pub mod exact;
pub mod grid;
pub mod iperf;
pub mod kernel;
pub mod load;
pub mod memory;
pub mod picture;
pub mod report;
pub mod runner;
