//! Copies from several sources of the same bytes that slow down and die: the time of the second half compared with the first,
//! and the share of each source compared with its capacity. `make bench-mirrors` runs it and writes docs/results/mirrors.md
//! and mirrors.svg.
//!
//! Sources stand behind lines with a rate, which are relays of this program on loopback: no delay, no loss. Does not know: how
//! a client deals ranges.

pub mod line;
pub mod report;
pub mod run;
