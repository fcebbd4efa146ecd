//! Lookup services of perfSONAR: our nodes are registered there, so that others find them, and others' services are found there, to be tested.
//!
//! Both forms are spoken: flat maps of lists (`lookup/records`), and the server of 2026 with one document for each interface (`record/`). Neither server is
//! in a package registry: what is here follows their sources and the examples of their documents.

mod facts;
mod read;
pub(crate) mod register;
#[cfg(test)]
mod tests;
mod write;

pub(crate) use read::host_of;
pub use read::{Found, find, targets};
