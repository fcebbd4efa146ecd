//! UDP tests: paced datagrams, exact loss, order and spacing; the highest rate; request and response.
//!
//! Both ends are here, each with a connected socket and the same order: [`send`] and [`receive`] (or [`Receiver`],
//! where the sender waits until the receiver is ready), [`request::measure`] and [`request::answer`]. What they say to
//! each other beside the datagrams is the caller's conversation. One run after another over the same sockets is told
//! apart by the run's number in each datagram.
//!
//! What this room does not know: how the ends found each other, who may test whom, interval lines (the caller looks at
//! [`Watch`]).

mod clock;
pub mod columns;
pub mod datagram;
pub(crate) mod fuzzing;
mod host;
mod order;
mod paced;
mod point;
mod receive;
pub mod request;
mod send;
mod sent;
mod spread;
pub mod sweep;
pub mod tally;
mod trains;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub use clock::{Clock, HostClock};
pub use datagram::Flow;
pub use host::HostCounters;
pub use order::{Mode, Plan, RUNS_TOLD_MAX, SECONDS_MAX};
pub use paced::paced;
pub use point::point;
pub use receive::{Receiver, receive};
pub use send::send;

/// How far an end is; clones look at the same numbers. For interval lines of somebody else's.
#[derive(Clone, Debug, Default)]
pub struct Watch(Arc<(AtomicU64, AtomicU64)>);

impl Watch {
    /// Datagrams so far.
    pub fn datagrams(&self) -> u64 {
        self.0.0.load(Ordering::Relaxed)
    }

    /// Numbers that are missing so far; 0 at the sending end.
    pub fn missing(&self) -> u64 {
        self.0.1.load(Ordering::Relaxed)
    }

    fn set(&self, datagrams: u64, missing: u64) {
        self.0.0.store(datagrams, Ordering::Relaxed);
        self.0.1.store(missing, Ordering::Relaxed);
    }
}

/// Tells a receiving end how many datagrams were sent. Clones tell the same one. The sender's own datagrams say so as
/// well, but those may be lost.
#[derive(Clone, Debug)]
pub struct Ending(Arc<AtomicU64>);

/// No number of datagrams: nobody has told.
const UNTOLD: u64 = u64::MAX;

impl Default for Ending {
    fn default() -> Ending {
        Ending(Arc::new(AtomicU64::new(UNTOLD)))
    }
}

impl Ending {
    /// So many were sent, and there will be no more.
    pub fn tell(&self, datagrams: u64) {
        self.0.store(datagrams, Ordering::Release);
    }

    /// What was told.
    pub fn told(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Acquire)).filter(|told| *told != UNTOLD)
    }
}

/// Bits per second of so many bytes; 0 where no time has passed.
fn rate_bit_s(bytes: u64, seconds: f64) -> u64 {
    if seconds > 0.0 { (bytes as f64 * 8.0 / seconds).round() as u64 } else { 0 }
}

/// Nanoseconds as the public JSON has them.
fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}
