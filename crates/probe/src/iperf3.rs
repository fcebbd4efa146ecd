//! The protocol of iperf3 (esnet/iperf), both ends: its control messages, its results, its UDP header.
//!
//! A client opens a control connection and sends a cookie; all further connections of the test begin with the same cookie.
//! States are single bytes; parameters and results are JSON after a length. *Stock* is esnet's own iperf3. A stock server runs one
//! test at a time and refuses a second client; the server here distinguishes tests by their cookies and runs many.

mod client;
mod control;
mod datagrams;
pub(crate) mod fuzzing;
mod message;
mod server;

pub use client::{DatagramOrder, Datagrams, test, test_datagrams};
pub use control::{COOKIE_BYTES, Cookie};
pub use message::{Params, Results, StreamResult};
pub use server::{Bounds, ReportBytes, Server, TestRecord};

/// The number of a stream by stock's rule: 1, 3, 4, 5, …
fn stream_id(at: u32) -> u32 {
    if at == 0 { 1 } else { at + 2 }
}
