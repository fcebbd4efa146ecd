//! Packets from a TUN device with offloads: cuts, damage and answers, compared with segments made one by one.

// Tests may unwrap; clippy.toml knows test functions only, not what they call.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "packet/answers.rs"]
mod answers;
#[path = "packet/cuts.rs"]
mod cuts;
#[path = "packet/damages.rs"]
mod damages;
#[path = "packet/hostile.rs"]
mod hostile;
#[path = "packet/kernel.rs"]
mod kernel;
#[path = "packet/samples.rs"]
mod samples;
#[path = "packet/shapes.rs"]
mod shapes;
