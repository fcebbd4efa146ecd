//! An emulated wide-area network on one machine: network namespaces as sites, joined by paths with the delay, rate,
//! queue, loss and disorder that a file describes.
//!
//! What this crate does not know: who uses it. It runs programs and carries their packets; it never links the engine.
//! The straight line: scenario (what was written) -> fabric (links, routes, delay line: pure) -> emulator (the thread
//! that reads and writes) -> lab (sites, and the handle that brings all of it up and down).

mod arena;
pub mod check;
pub mod control;
mod emulator;
mod error;
mod fabric;
pub mod fuzzing;
mod guests;
mod hash;
mod lab;
mod link;
pub mod packet;
mod reading;
pub mod rig;
pub mod scenario;
mod site;
mod status;
mod topology;
mod wire;

pub use emulator::EARLY_MAX;
pub use error::Error;
pub use lab::Lab;
pub use link::Counts;
pub use reading::{Lateness, LinkReading, Reading, lateness_max};
pub use scenario::Scenario;
pub use site::{Site, able};
pub use topology::{Owner, Topology};

/// What carries the packets, as results name it.
pub const BACK_END: &str = <wire::TunWire as wire::Wire>::NAME;
