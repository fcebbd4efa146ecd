//! Longhaul beside its peers over emulated wide-area paths, file by file and memory to memory. `make bench-wan` runs it
//! and writes docs/results/wan.md and wan.svg.
//!
//! A [`cell::Cell`] is a path and a set of files; [`plan`] says which cells fit the time. A [`tool::Tool`] knows its
//! server's and clients' commands, [`stage`] has the files, [`bed`] does one run in a lab of its own, [`course`] runs
//! tool after tool, round after round. [`ideal`] is what the path could give, [`verdict`] judges, [`report`] and
//! [`picture`] tell.

pub mod bed;
pub mod cell;
pub mod course;
pub mod ideal;
pub mod picture;
pub mod plan;
pub mod report;
pub mod site;
pub mod stage;
pub mod tool;
pub mod verdict;
