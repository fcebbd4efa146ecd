//! Measures a path, a host and a disk: TCP, UDP, latency, routes, files. It has both ends of each test, and speaks the
//! established protocols where they exist (iperf3, STAMP, TWAMP).
//!
//! This crate does not know sessions, keys and permissions (`node`), nor flags and terminals (the binary). It takes sockets
//! and an order, and returns results in the types of `model::v1::probe`.
//!
//! A reflector of STAMP (RFC 8762), and a test of loss and delay against it:
//!
//! ```
//! use std::net::UdpSocket;
//! use std::time::Duration;
//!
//! use probe::Stop;
//! use probe::stamp::send::{self, Extent, Order};
//! use probe::stamp::{HostClock, Reflector, Trust, serve};
//!
//! let (far, near) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
//! near.connect(far.local_addr()?)?;
//! let stop = Stop::default();
//! let found = std::thread::scope(|scope| {
//!     scope.spawn(|| serve(&far, &stop, &HostClock, &mut Reflector::new(1), &|_| Trust::Symmetric));
//!     let order = Order { rate_packets_s: 1_000.0, extent: Extent::Packets(20), ..Order::default() };
//!     let found = send::run(&near, &order, &Stop::default(), &HostClock);
//!     stop.stop();
//!     found
//! })?;
//! assert_eq!((found.packets.sent, found.packets.lost), (20, 0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

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
