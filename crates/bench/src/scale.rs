//! `make bench-scale`: what a node costs with many streams, and how it serves many jobs, sessions and requests at once, over loopback.

pub mod load;
pub mod picture;
pub mod report;
pub mod transfers;
