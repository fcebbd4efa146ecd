//! An emulated wide-area network on one machine: network namespaces as sites, joined by paths with the delay, rate,
//! queue, loss and disorder that a file describes.
//!
//! What this crate does not know: who uses it. It runs programs and carries their packets; it never links the engine.
//! The flow of data: scenario (the text) -> fabric (links, routes, delay line: pure) -> emulator (the thread that reads and writes) -> lab
//! (sites, and the handle that brings all of it up and down).
//!
//! A scenario is checked before anything is made of it:
//!
//! ```
//! let scenario = lab::scenario::Scenario::read("[site.a]\n[site.b]\n[path.a-b]\nrtt = \"303ms\"\n").unwrap();
//! assert_eq!((scenario.sites.len(), scenario.paths.len()), (2, 1));
//! ```
//!
//! `examples/tests/scenario.rs` brings one up in a test.

pub mod check;
pub mod control;
mod emulator;
mod error;
mod fabric;
pub mod fixture;
pub mod fuzzing;
mod hash;
mod lab;
mod link;
pub mod packet;
mod packet_memory;
mod reading;
mod site;
mod site_processes;
mod status;
mod topology;
mod wire;

pub use ::scenario;
pub use emulator::EARLY_MAX;
pub use error::Error;
pub use lab::Lab;
pub use link::Counts;
pub use reading::{Lateness, LinkReading, Reading, lateness_max};
pub use scenario::Scenario;
pub use site::{Site, check_prerequisites};
pub use topology::{Owner, Topology};

/// The name of the back end that carries the packets, for results.
pub const BACK_END: &str = <wire::TunWire as wire::Wire>::NAME;
