//! Labs with kernels at both ends: the kernels see what the lab counted.
//!
//! Needs root and /dev/net/tun; on a machine that cannot have labs, each test reports that on standard error and passes. If the machine was
//! too busy for the lab to keep its times, the test judges no times and rates, and reports that as well.

// Tests may unwrap; clippy.toml knows test functions only, not what they call.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "lab/bounds.rs"]
mod bounds;
#[path = "lab/changes.rs"]
mod changes;
#[path = "lab/control.rs"]
mod control;
#[path = "lab/datagrams.rs"]
mod datagrams;
#[path = "lab/host.rs"]
mod host;
#[path = "lab/probe.rs"]
mod probe;
#[path = "lab/rates.rs"]
mod rates;
#[path = "lab/routes.rs"]
mod routes;
#[path = "lab/streams.rs"]
mod streams;
