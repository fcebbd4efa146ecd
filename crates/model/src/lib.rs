//! The shared types: sizes, rates, names, locators, checksums, the form of a transfer and of its receipt; and the laws that say what a
//! path can carry. No IO.
//!
//! What this crate does not know: clocks, sockets, files, runtimes, randomness. Everything here is a value or a pure
//! function of values, so that every other crate can share it. The public JSON forms are in [`v1`], apart from the
//! internal types, so that these may change without breaking scripts.

pub mod account;
pub mod checksum;
pub mod client_prefix;
pub mod duration;
pub mod entry;
mod expected;
pub mod fault;
pub mod figure;
pub mod fuzzing;
pub mod hex;
pub mod id;
pub mod laws;
pub mod locator;
pub mod money;
pub mod name;
pub mod progress;
pub mod seeded_bytes;
pub mod spec;
pub mod tcp;
pub mod traffic;
pub mod units;
pub mod v1;

pub use checksum::{Algorithm, Digest};
pub use client_prefix::client_prefix;
pub use entry::{Kind, Meta, Timestamp};
pub use expected::Expected;
pub use fault::{Blame, Exit, Fault, Refusal, Retry};
pub use locator::{DEFAULT_PORT, HostPort, Locator, NodePlace};
pub use name::{Name, RelPath};
pub use progress::Progress;
pub use units::{BitRate, Bytes};
