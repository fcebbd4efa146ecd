//! Copies from several sources of the same bytes that slow down and die: the time of the second half compared with the first,
//! and the share of each source compared with its capacity. `make bench-mirrors` runs it and writes docs/results/mirrors.md
//! and mirrors.svg.
//!
//! Each source is behind a line with a rate: a relay of this program on loopback, without delay and loss. Does not know: how a
//! client divides the file among its sources.

pub mod line;
pub mod report;
pub mod run;
