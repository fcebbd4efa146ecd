//! Tests over flows of datagrams, both ends: how a command and a node agree on their parts and on when these begin.
//!
//! ```text
//! near                                        far
//!   Flows{token, flows, task} ──────────────>   registers the token
//!   <─────────────────────────────── Waiting
//!   hello on each flow ═════════════════════>   a socket for each
//!   <───────────────────────────────── Ready    (with what it needs set up)
//!   its half                                    its half
//!   over(sent) ═════════════════════════════>   ends
//!   <────────────────────────── Done(counts)
//! ```
//!
//! The caller transports the lines: over a session, or over a channel in tests.

mod far;
mod near;

pub use far::{ReportBytes, answer, longest};
pub use near::{Peer, explore, latency, latency_to_reflector, receive, request, routes, run, send, token};
