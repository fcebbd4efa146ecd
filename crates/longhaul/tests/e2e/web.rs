//! The HTTP side of a node: clients that keep to nothing, peers that lie, storage that says no.
//!
//! Requests are bytes on a socket of the test's own, so that nothing between the test and the node puts them right.

mod browsers;
mod collections;
mod crowds;
mod digests;
mod escapes;
mod frames;
mod kills;
mod lent;
mod locks;
mod native;
mod odd;
pub mod peers;
mod pulls;
mod pushes;
mod puts;
mod ranges;
pub mod raw;
mod sealed;
mod slow;
mod storage;
mod targets;
mod trees;
mod uploads;
