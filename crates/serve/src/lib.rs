//! An HTTP/1.1 and HTTP/2 server for bulk bodies: listening, telling protocols apart, TLS, limits on connections and threads,
//! idle connections that cost a descriptor and no thread, and requests as [`Exchange`]s, whatever carried them.
//!
//! A [`Service`] answers requests; its two methods are all that a server of HTTP needs. Where other protocols are spoken on the
//! same port, [`Protocols`] takes their connections. `examples/files.rs` serves a directory in thirty lines.
//!
//! What this crate does not know: exports, keys, who may do what, what a request means. What it refuses it reports
//! ([`Service::refused`]), and whoever counts does so there.

mod admission;
pub mod buffer;
mod connection_limits;
mod exchange;
mod h1;
mod h2;
mod idle;
mod incoming;
mod server;
mod service;
mod sniff;
pub mod tls;

pub use admission::Admitted;
pub use connection_limits::{ConnectionPermit, Full};
pub use exchange::{Exchange, LITTLE_BYTES, Length, PIECE_BYTES};
pub use incoming::Incoming;
pub use server::{Counts, Server, Stop, Waits, WeakServer, bind};
pub use service::{ClearText, Protocols, Rejection, Service};
pub use sniff::{Match, looks_like_http};
