//! The native protocol, sans IO: frames and their codec, data records, version negotiation, the block ledger, and the
//! sender and receiver machines.
//!
//! Goals: one session carries a whole job without a round trip per file; any block on any stream; streams may join
//! and leave; every length, queue and table bounded; a peer can waste its own time, but not this end's memory or files.
//! Non-goals: congestion control (the kernel's), encryption (the engine seals records with keys exported from TLS),
//! generality in the block checksum.
//!
//! What this crate does not know: clocks, sockets, threads, files, randomness, and the bytes of files. The machines
//! issue orders ("read this range, send it on that stream"), and the engine reports the results, so that sendfile, splice or
//! AEAD stay choices of the engine. Time is an argument. `docs/wire.md` is the same protocol in prose, for
//! authors of another implementation.
//!
//! Calling order of both machines: `handle_*` for each event, then `poll_*` until it returns nothing.
//!
//! A frame is a length (four bytes), a type and flags (a byte each) and a body:
//!
//! ```
//! use wire::Frame;
//! use wire::frame::{decode, encode};
//!
//! let mut bytes = Vec::new();
//! encode(&Frame::Ping(7), &mut bytes);
//! assert_eq!(decode(bytes[4], &bytes[6..])?, Frame::Ping(7));
//! # Ok::<(), wire::WireError>(())
//! ```

pub mod codec;
pub mod error;
pub mod frame;
pub mod fuzzing;
pub mod join;
pub mod ledger;
pub mod limits;
pub mod liveness;
pub mod mover;
mod range;
pub mod receiver;
pub mod record;
pub mod sender;
mod settled_files;
pub mod version;

pub use error::WireError;
pub use frame::Frame;
pub use ledger::Ledger;
pub use receiver::Receiver;
pub use sender::Sender;
pub use settled_files::SettledFile;
