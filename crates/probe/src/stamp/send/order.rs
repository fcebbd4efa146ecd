//! The order of a latency test, and its bounds.

use std::time::Duration;

use crate::stamp::packet::{BASE, PACKET_MAX, QUESTION_MIN};
use crate::stamp::tally::PACKETS_MAX;
use crate::{Error, Result};

/// How long a test is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// A number of packets.
    Packets(u64),
    /// The packets that are sent in this time.
    Time(Duration),
}

/// The order of a latency test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Order {
    /// Packets per second, from one in a hundred seconds to 100,000.
    pub rate_packets_s: f64,
    /// Length of the test.
    pub extent: Extent,
    /// Octets of a packet above UDP: 14 to 65,507. Shorter ones than 44 are TWAMP-Light's.
    pub packet_bytes: usize,
    /// Differentiated services code point, 0 to 63 (RFC 2474).
    pub dscp: u8,
    /// Session number (RFC 8972): answers with another number are ignored. 0 for none.
    pub ssid: u16,
    /// The longest wait for an answer, up to a minute.
    pub timeout: Duration,
    /// Both ends are on one machine and read one clock, whose error cancels in one-way delays.
    pub one_clock: bool,
}

impl Default for Order {
    /// Ten seconds of ten packets a second, with a random session number.
    fn default() -> Order {
        let extent = Extent::Time(Duration::from_secs(10));
        let timeout = Duration::from_secs(2);
        let ssid = fastrand::u16(1..);
        Order { rate_packets_s: 10.0, extent, packet_bytes: BASE, dscp: 0, ssid, timeout, one_clock: false }
    }
}

const RATES: std::ops::RangeInclusive<f64> = 0.01..=100_000.0;
const TIMEOUT_MAX: Duration = Duration::from_secs(60);
/// Most packets in flight: 100 bytes each, so 100 MB.
const FLIGHT_MAX: f64 = 1_000_000.0;
impl Order {
    /// Packets in all.
    pub fn packets(&self) -> u64 {
        match self.extent {
            Extent::Packets(packets) => packets,
            Extent::Time(time) => (time.as_secs_f64() * self.rate_packets_s).ceil() as u64,
        }
    }

    /// Checks the bounds of the order.
    ///
    /// # Errors
    /// [`Error::Order`]: the field that is out of bounds, and its bounds.
    pub fn check(&self) -> Result<()> {
        let flight = self.rate_packets_s * self.timeout.as_secs_f64();
        let packets = self.packets();
        let wrong = if !RATES.contains(&self.rate_packets_s) {
            format!("a rate of {} packets/s: it is from 0.01 to 100,000", self.rate_packets_s)
        } else if !(1..=PACKETS_MAX).contains(&packets) {
            format!("{packets} packets: a test has from 1 to {PACKETS_MAX}; a lower rate makes fewer")
        } else if !(QUESTION_MIN..=PACKET_MAX).contains(&self.packet_bytes) {
            format!("packets of {} bytes: they have from {QUESTION_MIN} to {PACKET_MAX}", self.packet_bytes)
        } else if self.dscp > 63 {
            format!("a code point of {}: the largest is 63", self.dscp)
        } else if self.timeout.is_zero() || self.timeout > TIMEOUT_MAX {
            format!("a timeout of {} s: it is more than 0 and at most 60 s", self.timeout.as_secs_f64())
        } else if flight > FLIGHT_MAX {
            format!(
                "{} packets/s with a timeout of {} s: more than a million packets in flight; lower one of the two",
                self.rate_packets_s,
                self.timeout.as_secs_f64()
            )
        } else {
            return Ok(());
        };
        Err(Error::Order(wrong))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_out_of_bounds_is_refused_with_the_bounds() {
        let good = Order::default();
        assert!(good.check().is_ok());
        assert_eq!((good.packets(), good.packet_bytes), (100, 44));
        let bad = [
            (Order { rate_packets_s: f64::NAN, ..good }, "100,000"),
            (Order { rate_packets_s: 200_000.0, ..good }, "100,000"),
            (Order { extent: Extent::Packets(0), ..good }, "from 1"),
            (Order { extent: Extent::Time(Duration::MAX), ..good }, "a lower rate"),
            (Order { packet_bytes: 13, ..good }, "14"),
            (Order { packet_bytes: 65_508, ..good }, "65507"),
            (Order { dscp: 64, ..good }, "63"),
            (Order { timeout: Duration::ZERO, ..good }, "60 s"),
            (Order { rate_packets_s: 50_000.0, timeout: Duration::from_secs(21), ..good }, "a million"),
        ];
        for (order, part) in bad {
            let refusal = order.check().unwrap_err().to_string();
            assert!(refusal.contains(part), "{refusal}");
        }
    }
}
