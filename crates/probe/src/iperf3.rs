//! The protocol of iperf3 (esnet/iperf), both ends: its control messages, its results, its UDP header.
//!
//! A client opens a control connection and sends a cookie; all further connections of the test begin with the same one.
//! States are single bytes, parameters and results JSON behind a length. Stock servers run one test at a time and refuse a
//! second client; ours tells tests apart by their cookies and runs many.

mod client;
mod control;
mod datagrams;
pub(crate) mod fuzzing;
mod message;
mod server;

pub use client::{DatagramOrder, Datagrams, test, test_datagrams};
pub use control::{COOKIE_BYTES, Cookie};
pub use message::{Params, Results, StreamResult};
pub use server::{Bounds, Moved, Server, TestRecord};

/// Numbers of streams as stock counts them: 1, 3, 4, 5, …
fn stream_id(at: u32) -> u32 {
    if at == 0 { 1 } else { at + 2 }
}
