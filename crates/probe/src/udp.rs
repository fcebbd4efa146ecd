//! UDP tests: paced datagrams, exact loss, order and spacing; the highest rate; request and response.
//!
//! Both ends are here, each with a connected socket and the same order: [`send`] and [`receive`] (or [`Receiver`],
//! where the sender waits until the receiver is ready), [`request::measure`] and [`request::answer`]. The caller carries
//! all messages between the ends beside the datagrams. Runs that follow each other over the same sockets are told apart by
//! the run's number in each datagram.
//!
//! This module does not know how the ends found each other, who may test whom, and interval lines (the caller reads
//! [`Watch`]).

mod clock;
pub mod columns;
pub mod datagram;
pub(crate) mod fuzzing;
mod histogram;
mod host;
mod order;
mod paced;
mod point;
mod receive;
pub mod request;
mod send;
mod sent;
pub mod sweep;
pub mod tally;
mod trains;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub use clock::{Clock, HostClock};
pub use datagram::FlowId;
pub use host::HostCounters;
pub use order::{Mode, Plan, RUNS_TOLD_MAX, SECONDS_MAX};
pub use paced::paced;
pub use point::point;
pub use receive::{Receiver, receive};
pub use send::send;

/// Progress of an end, for the caller's interval lines. Clones share the counters.
#[derive(Clone, Debug, Default)]
pub struct Watch(Arc<(AtomicU64, AtomicU64)>);

impl Watch {
    /// Datagrams so far.
    pub fn datagrams(&self) -> u64 {
        self.0.0.load(Ordering::Relaxed)
    }

    /// Datagrams that are missing so far, by their numbers; 0 at the sending end.
    pub fn missing(&self) -> u64 {
        self.0.1.load(Ordering::Relaxed)
    }

    fn set(&self, datagrams: u64, missing: u64) {
        self.0.0.store(datagrams, Ordering::Relaxed);
        self.0.1.store(missing, Ordering::Relaxed);
    }
}

/// Tells a receiving end how many datagrams were sent. Clones share the number. The sender's last datagrams carry it as well,
/// but may be lost.
#[derive(Clone, Debug)]
pub struct EndNotice(Arc<AtomicU64>);

/// The value before the number is known.
const UNTOLD: u64 = u64::MAX;

impl Default for EndNotice {
    fn default() -> EndNotice {
        EndNotice(Arc::new(AtomicU64::new(UNTOLD)))
    }
}

impl EndNotice {
    /// Says that the run is over after `datagrams`.
    pub fn tell(&self, datagrams: u64) {
        self.0.store(datagrams, Ordering::Release);
    }

    /// The number of datagrams sent, once it is known.
    pub fn told(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Acquire)).filter(|told| *told != UNTOLD)
    }
}

/// Bits per second of so many bytes; 0 where no time has passed.
fn rate_bit_s(bytes: u64, seconds: f64) -> u64 {
    if seconds > 0.0 { (bytes as f64 * 8.0 / seconds).round() as u64 } else { 0 }
}

/// Nanoseconds in seconds, the unit of the public JSON.
fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}
