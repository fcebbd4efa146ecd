//! Measures a path, a host and a disk: TCP, UDP, latency, routes, files; both ends of each test, and other people's
//! protocols where they have one (iperf3, STAMP).
//!
//! What this crate does not know: sessions, keys, who may test whom (`door`), flags and terminals (the binary). It is given
//! sockets and an order, and gives back results as `model::v1::probe` has them.

pub mod causes;
mod dial;
pub mod disk;
mod error;
pub mod flow;
pub mod fuzzing;
pub mod host;
pub mod iperf3;
pub mod route;
pub mod stamp;
mod stop;
pub mod task;
pub mod tcp;
pub mod twamp;
pub mod udp;

pub use dial::dial;
pub use error::{Error, Result};
pub use stop::Stop;
