//! Copies of a file between this node and another server for a client, whatever the protocol of the client: their progress, and the
//! native engine, by which two nodes copy.
//!
//! Does not know: the protocols in which clients order copies (`http`, `root`).

pub(crate) mod delegated_key;
pub(crate) mod native;
pub(crate) mod progress;
