//! Longhaul compared with its peers over emulated wide-area paths, file by file and memory to memory. `make bench-wan` runs it
//! and writes docs/results/wan.md and wan.svg.
//!
//! A [`cell::Cell`] is a path and a set of files; [`plan`] chooses the cells that fit the time. A [`tool::Tool`] knows the
//! commands of its server and clients, [`stage`] has the files, [`bed`] does one run in a lab of its own, [`rounds`] runs
//! all tools in turn, round after round. [`ideal`] calculates the shortest time that a path permits, [`verdict`] judges,
//! [`report`] and [`picture`] write the results.

pub mod bed;
pub mod cell;
pub mod ideal;
pub mod picture;
pub mod plan;
pub mod report;
pub mod rounds;
pub mod site;
pub mod stage;
pub mod tool;
pub mod verdict;
