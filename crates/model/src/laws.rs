//! The path laws: what a TCP path can carry, from its round-trip time, window and loss.
//!
//! Units: rates in bit/s, sizes in bytes, times in seconds, loss as a fraction of packets. Each law names its source.
//! What it does not know: the host (CPU, storage), and congestion control other than the one named.

/// The largest TCP window, bytes: 65,535 scaled by 2^14 (RFC 7323, section 2.3).
pub const WINDOW_BYTES_MAX: u64 = 65_535 << 14;
/// Segments that a new connection may send before the first acknowledgement (RFC 6928).
pub const INITIAL_WINDOW_SEGMENTS: f64 = 10.0;

/// The bandwidth-delay product, bytes: what must be in flight to fill a path.
pub fn bdp_bytes(rate_bit_s: f64, rtt_s: f64) -> f64 {
    rate_bit_s * rtt_s / 8.0
}

/// The most one stream can carry through a window, bit/s: one window per round trip.
pub fn window_rate_bit_s(window_bytes: f64, rtt_s: f64) -> f64 {
    window_bytes * 8.0 / rtt_s
}

/// The fewest streams whose windows together cover the product of rate and round-trip time.
pub fn streams_for_window(rate_bit_s: f64, rtt_s: f64, window_bytes: f64) -> u64 {
    (bdp_bytes(rate_bit_s, rtt_s) / window_bytes).ceil().max(1.0) as u64
}

/// How long slow start takes to reach a window, seconds: the window doubles each round trip from ten segments
/// (RFC 5681, RFC 6928). Real ramps can be slower where the receiver's buffer grows less fast than the window.
pub fn slow_start_s(window_bytes: f64, mss_bytes: f64, rtt_s: f64) -> f64 {
    rtt_s * (window_bytes / mss_bytes / INITIAL_WINDOW_SEGMENTS).log2().max(0.0)
}

/// The most one Reno stream carries under random loss, bit/s: `MSS/RTT * sqrt(3/2) / sqrt(p)` (Mathis, Semke, Mahdavi
/// and Ott, 1997).
pub fn mathis_bit_s(mss_bytes: f64, rtt_s: f64, loss: f64) -> f64 {
    mss_bytes * 8.0 * 1.5f64.sqrt() / (rtt_s * loss.sqrt())
}

/// The most one CUBIC stream carries under random loss, bit/s: average window `1.054 * (RTT/p)^(3/4) / RTT^...` in
/// segments, i.e. `1.054 * RTT^(3/4) / p^(3/4)` (RFC 9438, section 5.1, C = 0.4, beta = 0.7), or what Reno would get
/// where that is more (its Reno-friendly region).
pub fn cubic_bit_s(mss_bytes: f64, rtt_s: f64, loss: f64) -> f64 {
    let window_segments = 1.054 * rtt_s.powf(0.75) / loss.powf(0.75);
    (window_segments * mss_bytes * 8.0 / rtt_s).max(mathis_bit_s(mss_bytes, rtt_s, loss))
}

/// How long Reno needs to regain a rate after one loss, seconds: half the window back at one segment per round trip,
/// `C * RTT^2 / (2 * MSS * 8)`.
pub fn reno_recovery_s(rate_bit_s: f64, rtt_s: f64, mss_bytes: f64) -> f64 {
    rate_bit_s * rtt_s * rtt_s / (2.0 * mss_bytes * 8.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GBIT: f64 = 1e9;
    const MIB: f64 = 1_048_576.0;

    #[track_caller]
    fn near(value: f64, stated: f64, tolerance: f64) {
        assert!((value / stated - 1.0).abs() <= tolerance, "{value} is not {stated} within {tolerance}");
    }

    #[test]
    fn windows() {
        assert_eq!(WINDOW_BYTES_MAX, 1_073_725_440);
        near(window_rate_bit_s(1023.0 * MIB, 0.303), 28.32 * GBIT, 0.001);
        near(window_rate_bit_s(1023e6, 0.303), 27.01 * GBIT, 0.001); // the unit trap: MB is not MiB
        near(window_rate_bit_s(WINDOW_BYTES_MAX as f64, 0.303), 28.35 * GBIT, 0.001);
        near(window_rate_bit_s(4.0 * MIB, 0.303), 110.7e6, 0.001);
        near(window_rate_bit_s(35e6, 0.0075), 37.33 * GBIT, 0.001);
    }

    #[test]
    fn products() {
        near(bdp_bytes(100.0 * GBIT, 0.303), 3.7875e9, 1e-9);
        near(bdp_bytes(37.0 * GBIT, 0.0075), 34.69e6, 0.001);
        near(bdp_bytes(10.0 * GBIT, 0.142), 177.5e6, 1e-9);
        near(bdp_bytes(3.0 * GBIT, 0.259), 97.125e6, 1e-9);
        assert_eq!(streams_for_window(1e12, 0.3, WINDOW_BYTES_MAX as f64), 35);
        assert_eq!(streams_for_window(1e6, 0.001, WINDOW_BYTES_MAX as f64), 1);
    }

    #[test]
    fn slow_start() {
        near(slow_start_s(97e6, 8948.0, 0.259), 2.611, 0.001);
        near(slow_start_s(28.3 * GBIT * 0.303 / 8.0, 8948.0, 0.303), 4.105, 0.001);
        assert_eq!(slow_start_s(1000.0, 1448.0, 0.3), 0.0);
    }

    #[test]
    fn loss() {
        near(mathis_bit_s(1460.0, 0.010, 4.6e-5), 210.9e6, 0.001);
        near(mathis_bit_s(8960.0, 0.100, 4.6e-5), 129.4e6, 0.001);
        near(mathis_bit_s(1460.0, 0.010, 0.003), 26.12e6, 0.001);
        // RFC 9438, table 2: RTT 0.1 s, p = 1e-5 gives an average window of 1054 * 1.78 = 1,053 segments.
        let segments = cubic_bit_s(1448.0, 0.1, 1e-5) * 0.1 / 8.0 / 1448.0;
        near(segments, 1.054 * 0.1f64.powf(0.75) / 1e-5f64.powf(0.75), 1e-9);
        assert!(cubic_bit_s(1448.0, 0.3, 1e-6) > mathis_bit_s(1448.0, 0.3, 1e-6));
    }

    #[test]
    fn recovery() {
        near(reno_recovery_s(10.0 * GBIT, 0.006, 9000.0), 2.5, 0.001);
        near(reno_recovery_s(10.0 * GBIT, 0.150, 9000.0) / 60.0, 26.04, 0.001);
        near(reno_recovery_s(10.0 * GBIT, 0.300, 9000.0) / 60.0, 104.2, 0.001);
        near(reno_recovery_s(10.0 * GBIT, 0.300, 1448.0) / 3600.0, 10.79, 0.001);
    }
}
