//! An HTTP/1.1 and HTTP/2 server for bulk bodies. It listens, recognises protocols, speaks TLS, limits connections and threads, and
//! keeps idle connections without a thread. A request is an [`Exchange`], whichever version of HTTP carried it.
//!
//! A [`Service`] answers requests; a server of HTTP implements its two methods and no more. [`Protocols`] takes the connections of
//! other protocols on the same port. `examples/files.rs` serves a directory.
//!
//! What this crate does not know: exports, keys, who may do what, what a request means. It reports what it refuses
//! ([`Service::refused`]); logs and counters are the service's.

mod admission;
pub mod buffer;
mod connection_limits;
mod exchange;
mod h1;
mod h2;
mod idle;
mod incoming;
mod kernel_tls;
mod server;
mod service;
mod sniff;
pub mod tls;

pub use admission::Admitted;
pub use connection_limits::{ConnectionPermit, LimitReached};
pub use exchange::{Exchange, Length, PIECE_BYTES, SHORT_BODY_BYTES_MAX};
pub use incoming::{Idle, Incoming};
pub use server::{Counts, Server, Stop, Timeouts, WeakServer};
pub use service::{ClearText, Protocols, Rejection, Service};
pub use sniff::{Match, looks_like_http};
