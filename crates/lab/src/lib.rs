//! An emulated wide-area network on one machine: network namespaces as sites, joined by paths with the delay, rate,
//! queue, loss and disorder that a file describes.
//!
//! What this crate does not know: who uses it. It runs programs and carries their packets; it never links the engine.
//! The straight line: scenario (what was written) -> fabric (links, routes, delay line: pure) -> emulator (the thread
//! that reads and writes) -> lab (sites, and the handle that brings all of it up and down).

pub mod packet;
pub mod scenario;
