//! Lookup services of perfSONAR: nodes of the watch are registered there, so that other domains find them, and services of other domains are found there,
//! to be tested.
//!
//! Both forms of records are supported: flat maps of lists (`lookup/records`), and the server of 2026 with one document for each interface (`record/`). Neither server is
//! in a package registry: what is here follows their sources and the examples of their documents.

mod facts;
mod read;
pub(crate) mod register;
#[cfg(test)]
mod tests;
mod write;

pub(crate) use read::host_of;
pub use read::{FoundService, find, targets};
