//! The checked order of a run, in whole nanoseconds: [`Plan`].

use model::v1::probe::udp::{UdpOrder, UdpPace};

use super::datagram::{DATAGRAM_BYTES_MAX, HEAD_BYTES};
use crate::{Error, Result};

/// The longest run, seconds.
pub const SECONDS_MAX: f64 = 3_600.0;
/// The longest pause between two datagrams: a longer silence means that the sender is gone.
const PAUSE_NS_MAX: u64 = 10_000_000_000;
/// Most datagrams of a run. 10^12 at 100 ns each last a day. The bound also keeps a forged number from making a gap of 2^64.
pub(super) const DATAGRAMS_MAX: u64 = 1_000_000_000_000;
/// Most runs of lost numbers in a result: at 30 bytes each 300 KB, below the 512 KiB of a line between nodes.
pub const LOST_RUNS_MAX: usize = 10_000;

/// When datagrams leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One at a time, from start to start.
    Spaced {
        /// Least time from one start to the next.
        spacing_ns: u64,
    },
    /// Some in a row, then a pause.
    Bursts {
        /// Datagrams of a burst.
        length: u64,
        /// Time from start to start within a burst.
        spacing_ns: u64,
        /// From the end of the last spacing to the next burst.
        gap_ns: u64,
    },
    /// In trains, as fast as they go.
    Max,
}

/// A checked run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Payload of each datagram.
    pub bytes: usize,
    /// When they leave.
    pub mode: Mode,
    /// Datagrams, at most.
    pub count: u64,
    /// Most nanoseconds of the run, if the order has a bound.
    pub length_ns: Option<u64>,
}

impl Plan {
    /// Checks an order.
    ///
    /// # Errors
    /// [`Error::Order`]: what is out of bounds, and the bounds.
    pub fn of(order: &UdpOrder) -> Result<Plan> {
        let bytes = size(order.bytes)?;
        let mode = match order.pace {
            UdpPace::Spacing { spacing_s } => Mode::Spaced { spacing_ns: pause("spacing", spacing_s)? },
            UdpPace::Rate { rate_bit_s: 0 } => return refuse("a rate of 0 sends nothing".into()),
            UdpPace::Rate { rate_bit_s } => {
                let spacing_s = bytes as f64 * 8.0 / rate_bit_s as f64;
                Mode::Spaced { spacing_ns: pause("spacing at this rate", spacing_s)? }
            }
            UdpPace::Bursts { length: 0, .. } => return refuse("a burst has at least 1 datagram".into()),
            UdpPace::Bursts { length, spacing_s, gap_s } => {
                let spacing_ns = pause("spacing", spacing_s)?;
                let gap_ns = pause("gap", gap_s)?;
                Mode::Bursts { length: length.into(), spacing_ns, gap_ns }
            }
            UdpPace::Max => Mode::Max,
        };
        let length_ns = match order.seconds {
            Some(s) if s > 0.0 && s <= SECONDS_MAX => Some((s * 1e9) as u64),
            Some(s) => return refuse(format!("a run lasts more than 0 and at most {SECONDS_MAX} s, not {s} s")),
            None => None,
        };
        let count = match (order.count, length_ns) {
            (None, None) => return refuse("say how many datagrams or how many seconds".into()),
            (None, Some(_)) => DATAGRAMS_MAX,
            (Some(count @ 1..=DATAGRAMS_MAX), _) => count,
            (Some(count), _) => return refuse(format!("a run has 1 to {DATAGRAMS_MAX} datagrams, not {count}")),
        };
        Ok(Plan { bytes, mode, count, length_ns })
    }

    /// The longest pause between datagrams by the order itself.
    pub(super) fn pause_ns(&self) -> u64 {
        match self.mode {
            Mode::Spaced { spacing_ns } => spacing_ns,
            Mode::Bursts { spacing_ns, gap_ns, .. } => spacing_ns + gap_ns,
            Mode::Max => 0,
        }
    }
}

fn refuse<T>(what: String) -> Result<T> {
    Err(Error::Order(what))
}

/// Checks that a payload can be sent and has room for a head.
pub(super) fn size(bytes: u32) -> Result<usize> {
    match bytes as usize {
        fits @ HEAD_BYTES..=DATAGRAM_BYTES_MAX => Ok(fits),
        _ => refuse(format!("a datagram has {HEAD_BYTES} to {DATAGRAM_BYTES_MAX} bytes, not {bytes}")),
    }
}

fn pause(what: &str, seconds: f64) -> Result<u64> {
    let nanos = seconds * 1e9;
    if nanos >= 0.0 && nanos <= PAUSE_NS_MAX as f64 {
        Ok(nanos.round() as u64)
    } else {
        refuse(format!("a {what} of {seconds} s: it is from 0 to {} s", PAUSE_NS_MAX / 1_000_000_000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(bytes: u32, pace: UdpPace) -> UdpOrder {
        UdpOrder { bytes, pace, count: Some(10), seconds: None }
    }

    #[test]
    fn an_order_becomes_nanoseconds() {
        let plan = Plan::of(&order(1_250, UdpPace::Rate { rate_bit_s: 1_000_000_000 })).unwrap();
        assert_eq!(plan.mode, Mode::Spaced { spacing_ns: 10_000 });
        let bursts = UdpPace::Bursts { length: 3, spacing_s: 1.5e-6, gap_s: 0.25 };
        let plan = Plan::of(&UdpOrder { seconds: Some(2.0), count: None, ..order(50, bursts) }).unwrap();
        assert_eq!(plan.mode, Mode::Bursts { length: 3, spacing_ns: 1_500, gap_ns: 250_000_000 });
        assert_eq!((plan.count, plan.length_ns), (DATAGRAMS_MAX, Some(2_000_000_000)));
        assert_eq!(plan.pause_ns(), 250_001_500);
    }

    #[test]
    fn an_order_out_of_bounds_is_refused_with_the_bounds() {
        let spaced = |spacing_s| UdpPace::Spacing { spacing_s };
        let wrong = [
            (order(40, UdpPace::Max), "41 to 65507"),
            (order(65_508, UdpPace::Max), "41 to 65507"),
            (order(100, spaced(-1e-6)), "0 to 10 s"),
            (order(100, spaced(f64::NAN)), "0 to 10 s"),
            (order(100, spaced(11.0)), "0 to 10 s"),
            (order(100, UdpPace::Rate { rate_bit_s: 0 }), "sends nothing"),
            (order(65_507, UdpPace::Rate { rate_bit_s: 1 }), "0 to 10 s"),
            (order(100, UdpPace::Bursts { length: 0, spacing_s: 0.0, gap_s: 0.0 }), "at least 1"),
            (UdpOrder { count: None, ..order(100, UdpPace::Max) }, "how many"),
            (UdpOrder { count: Some(0), ..order(100, UdpPace::Max) }, "not 0"),
            (UdpOrder { seconds: Some(0.0), ..order(100, UdpPace::Max) }, "at most 3600 s"),
            (UdpOrder { seconds: Some(f64::INFINITY), ..order(100, UdpPace::Max) }, "at most 3600 s"),
        ];
        for (order, bounds) in wrong {
            let error = Plan::of(&order).unwrap_err();
            assert!(matches!(&error, Error::Order(what) if what.contains(bounds)), "{error} should say {bounds}");
        }
    }
}
