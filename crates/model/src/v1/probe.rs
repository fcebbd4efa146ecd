//! The public JSON of tests. Rates are bit/s, sizes bytes, times seconds.

pub mod disk;
pub mod latency;
pub mod route;
pub mod tcp;
pub mod udp;
