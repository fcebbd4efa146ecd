//! Carries out transfers: sessions, streams, readers and writers around the machines of `wire` and the stores of `store`.
//!
//! The life of a block, in the order of the code: [`scan`] finds it, the sender's machine deals it out, [`send`] reads,
//! digests, seals and sends it, [`receive`] receives, checks, writes and commits it. One thread per stream and side
//! does all steps of its side while the block is in one core's cache; no block changes threads. One more thread
//! per session, the caller's, owns the control connection and the machine's messages.
//!
//! What this crate does not know: command lines, grant files, listening, logging. It dials, and it runs both ends of a
//! session whose connection its caller accepted.
//!
//! `examples/copy.rs` copies a tree to a node with this crate and [`client`](../client/index.html).

pub mod budget;
pub mod connect;
pub mod control;
mod delegated;
pub mod dial;
pub mod error;
pub mod filelist;
pub mod filter;
pub mod history;
pub mod identity;
pub mod job;
pub mod journal;
pub mod lastcopy;
pub mod leftovers;
mod lineage;
pub mod link;
pub mod meter;
pub mod movers;
pub mod node;
pub mod path_shares;
pub mod patience;
pub mod receipt;
pub mod receive;
mod requester;
pub mod scan;
pub mod seal;
pub mod send;
pub mod series;
pub mod session;
mod session_pool;
pub mod side;
pub mod stream;
pub mod timeouts;
pub mod transfer;

pub use error::{Error, Result};
pub use identity::{NodeIdentity, Trust};
pub use session::Session;
pub use timeouts::Timeouts;

/// This program, as it names itself to peers.
pub const SOFTWARE: &str = concat!("longhaul/", env!("CARGO_PKG_VERSION"));
