//! The shortest time that a path permits for a payload, and the share of the bottleneck that a run reached.

use model::laws;

/// Bytes of IP and TCP headers in each segment, timestamps included.
const HEADERS: f64 = 52.0;

/// The bottleneck of a path, and the size of its packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bottleneck {
    /// Rate of IP bytes, bit/s.
    pub rate_bit_s: f64,
    /// MTU, bytes.
    pub mtu: u16,
}

impl Bottleneck {
    /// Payload of a segment, bytes.
    pub fn mss(self) -> f64 {
        f64::from(self.mtu) - HEADERS
    }

    /// The least time that a payload takes, seconds: with headers, and with one slow start.
    pub fn ideal_s(self, payload: u64, rtt_s: f64) -> f64 {
        let at_rate = payload as f64 * (f64::from(self.mtu) / self.mss()) * 8.0 / self.rate_bit_s;
        at_rate + laws::slow_start_s(laws::bdp_bytes(self.rate_bit_s, rtt_s), self.mss(), rtt_s)
    }

    /// The ideal time divided by the time of a run.
    pub fn net_share(self, payload: u64, rtt_s: f64, wall_s: f64) -> f64 {
        self.ideal_s(payload, rtt_s) / wall_s
    }

    /// The mean rate of the payload divided by the rate of the bottleneck.
    pub fn gross_share(self, payload: u64, wall_s: f64) -> f64 {
        payload as f64 * 8.0 / wall_s / self.rate_bit_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTTLENECK: Bottleneck = Bottleneck { rate_bit_s: 1e9, mtu: 9000 };

    #[test]
    fn a_short_path_costs_headers_only() {
        let ideal_s = BOTTLENECK.ideal_s(1_000_000_000, 0.0);
        assert!((ideal_s - 8.0 * 9000.0 / 8948.0).abs() < 1e-9, "{ideal_s}");
        assert!((BOTTLENECK.net_share(1_000_000_000, 0.0, ideal_s) - 1.0).abs() < 1e-12);
        assert!((BOTTLENECK.gross_share(1_000_000_000, 10.0) - 0.8).abs() < 1e-12);
    }

    #[test]
    fn a_long_path_costs_a_slow_start() {
        // 37.9 MB are 423 times ten segments: 8.73 doublings of 303 ms.
        let ideal_s = BOTTLENECK.ideal_s(1_000_000_000, 0.303);
        assert!((ideal_s - 8.0465 - 2.644).abs() < 0.01, "{ideal_s}");
    }
}
