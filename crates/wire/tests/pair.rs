//! The sender's and the receiver's state machine, joined by simulated links, in virtual time: whole jobs with seeded faults, without a
//! clock and without sockets.

// Tests may unwrap; clippy.toml allows it in test functions only, not in the functions that they call.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "pair/attempts.rs"]
mod attempts;
#[path = "pair/bounds.rs"]
mod bounds;
#[path = "pair/faults.rs"]
mod faults;
#[path = "pair/harness.rs"]
mod harness;
#[path = "pair/jobs.rs"]
mod jobs;
#[path = "pair/link.rs"]
mod link;
#[path = "pair/partial_file.rs"]
mod partial_file;
#[path = "pair/random.rs"]
mod random;
#[path = "pair/resume.rs"]
mod resume;
#[path = "pair/rng.rs"]
mod rng;
#[path = "pair/source.rs"]
mod source;
#[path = "pair/store.rs"]
mod store;
#[path = "pair/timing.rs"]
mod timing;
#[path = "pair/tree.rs"]
mod tree;
#[path = "pair/verify.rs"]
mod verify;
