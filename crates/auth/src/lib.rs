//! Who may do what: access keys and grants become one [`Access`], which answers every question the node asks.
//!
//! What this crate does not know: files, sockets, clocks, randomness. Keys and the time are arguments; the door reads
//! grant files and the clock. This is the boundary that a security review reads first.

pub mod access;
pub mod grant;
pub mod key;

pub use access::{Access, Action, Denied};
pub use grant::{Errand, Grant, Grants, Rights, hex};
pub use key::{AccessKey, Fingerprint};
