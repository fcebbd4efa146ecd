//! The HTTP service of a node: clients that break the rules, peers that give false answers, storage that fails.
//!
//! Requests are bytes on a socket of the test, so that no library between the test and the node corrects them.

mod browsers;
mod collections;
mod connection_limits;
mod delegated_keys;
mod digests;
mod escapes;
mod frames;
mod http2;
mod kernel_tls;
mod kills;
mod locks;
mod native;
pub mod peers;
mod pulls;
mod pushes;
mod puts;
mod ranges;
pub mod raw;
mod sealed;
mod slow;
mod source_digests;
mod storage;
mod targets;
mod trees;
mod unusual_requests;
mod uploads;
