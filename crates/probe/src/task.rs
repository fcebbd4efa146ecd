//! Tests over flows of datagrams, both ends: how a command and a node agree on what each does, and when.
//!
//! ```text
//! near                                        far
//!   Flows{token, flows, task} ──────────────>   takes a seat under the token
//!   <─────────────────────────────── Waiting
//!   hello on each flow ═════════════════════>   a socket for each
//!   <───────────────────────────────── Ready    (with what it needs set up)
//!   its part                                    its part
//!   over(sent) ═════════════════════════════>   ends
//!   <────────────────────────── Done(counts)
//! ```
//!
//! Lines go over whatever the caller has: a session, or a channel in tests.

mod far;
mod near;

pub use far::{Moved, answer, longest};
pub use near::{Peer, explore, latency, receive, reflected_by, request, routes, run, send, token};
