//! UDP tests: paced datagrams, exact loss, order and spacing; the highest rate; request and response.
//!
//! Both ends are here, each with a connected socket and the same order: [`send`] and [`receive`] (or [`Receiver`],
//! where the sender waits until the receiver is ready), [`request::measure`] and [`request::answer`]. The caller carries
//! all messages between the ends other than the datagrams. The run's number in each datagram distinguishes runs that follow each
//! other over the same sockets.
//!
//! This module does not know how the ends find each other, who may run a test, or interval lines (the caller reads [`RunProgress`]).

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
pub use order::{LOST_RUNS_MAX, Mode, Plan, SECONDS_MAX};
pub use paced::paced;
pub use point::point;
pub use receive::{Receiver, receive};
pub use send::send;

/// Progress of an end, for the caller's interval lines. Clones share the counters.
#[derive(Clone, Debug, Default)]
pub struct RunProgress(Arc<(AtomicU64, AtomicU64)>);

impl RunProgress {
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

/// The number of datagrams that were sent, for the receiving end. Clones share the number. The sender's last datagrams carry it as
/// well, but may be lost.
#[derive(Clone, Debug)]
pub struct EndNotice(Arc<AtomicU64>);

/// The value before the number is known.
const UNKNOWN: u64 = u64::MAX;

impl Default for EndNotice {
    fn default() -> EndNotice {
        EndNotice(Arc::new(AtomicU64::new(UNKNOWN)))
    }
}

impl EndNotice {
    /// Sets the number: the run is over after so many datagrams.
    pub fn set(&self, datagrams: u64) {
        self.0.store(datagrams, Ordering::Release);
    }

    /// The number of datagrams sent, once it is known.
    pub fn get(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Acquire)).filter(|sent| *sent != UNKNOWN)
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
