//! The two machines joined by simulated links, in virtual time: whole jobs, seeded faults, no clock and no socket.

// Tests may unwrap; clippy.toml knows test functions only, not what they call.
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
#[path = "pair/kept.rs"]
mod kept;
#[path = "pair/link.rs"]
mod link;
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
