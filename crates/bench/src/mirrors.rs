//! Copies from several sources of the same bytes that slow down and die: how long the second half takes beside the first, and
//! what each source brings beside what it could. `make bench-mirrors` runs it and writes docs/results/mirrors.md and mirrors.svg.
//!
//! Sources stand behind lines with a rate, which are relays of this program on loopback: no delay, no loss. Does not know: how
//! a client deals ranges.

pub mod line;
pub mod report;
pub mod run;
