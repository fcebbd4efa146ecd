//! The path laws: what a TCP path can carry, from its round-trip time, window and loss, and how long it takes to get there. [`line`] has
//! the laws of packets on a line, [`freight`] those of volumes and of disks sent by courier.
//!
//! Units: rates in bit/s, sizes in bytes, times in seconds, loss as a fraction of packets. Each law names its source.
//! What it does not know: the host (CPU, storage), and congestion control other than the one named. Arguments are
//! positive; a zero or a negative number gives what floating point makes of it (infinity, NaN), never a panic.

pub mod freight;
pub mod line;

#[cfg(test)]
mod tests;

/// The largest TCP window, bytes: 65,535 scaled by 2^14 (RFC 7323, section 2.3).
pub const WINDOW_BYTES_MAX: u64 = 65_535 << 14;
/// The largest socket buffer, bytes: Linux holds `tcp_rmem`, `tcp_wmem` and `SO_RCVBUF` in signed 32-bit numbers.
pub const BUFFER_BYTES_MAX: u64 = (1 << 31) - 1;
/// Segments that a new connection may send before the first acknowledgement (RFC 6928).
pub const INITIAL_WINDOW_SEGMENTS: f64 = 10.0;
/// How steeply CUBIC grows, segments per cubic second (RFC 9438, section 5.1).
pub const CUBIC_C: f64 = 0.4;
/// The fraction of its window that CUBIC keeps after a loss (RFC 9438, section 4.6).
pub const CUBIC_BETA: f64 = 0.7;

/// Bytes until TCP's sequence numbers wrap: they have 32 bits (RFC 9293, section 3.4).
const SEQUENCE_BYTES: f64 = 4_294_967_296.0;

/// The bandwidth-delay product, bytes: what must be in flight to fill a path.
pub fn bdp_bytes(rate_bit_s: f64, rtt_s: f64) -> f64 {
    rate_bit_s * rtt_s / 8.0
}

/// The most one stream can carry through a window, bit/s: one window per round trip.
pub fn window_rate_bit_s(window_bytes: f64, rtt_s: f64) -> f64 {
    window_bytes * 8.0 / rtt_s
}

/// The round-trip time at which a window carries a rate, seconds: `8 * W / B`. A measured pair of window and rate thus gives
/// the round-trip time that it was measured over.
pub fn window_rtt_s(window_bytes: f64, rate_bit_s: f64) -> f64 {
    window_bytes * 8.0 / rate_bit_s
}

/// The fewest streams whose windows together cover the product of rate and round-trip time.
pub fn streams_for_window(rate_bit_s: f64, rtt_s: f64, window_bytes: f64) -> u64 {
    (bdp_bytes(rate_bit_s, rtt_s) / window_bytes).ceil().max(1.0) as u64
}

/// The fewest streams that together carry a rate, where each carries `each_bit_s`: `ceil(B / each)`. For streams that
/// loss holds down, `each` is what [`mathis_bit_s`] or [`cubic_bit_s`] says.
pub fn streams_to_fill(rate_bit_s: f64, each_bit_s: f64) -> u64 {
    (rate_bit_s / each_bit_s).ceil().max(1.0) as u64
}

/// The largest buffer that a socket should be allowed, bytes: twice the bandwidth-delay product, or what the kernel can
/// hold. Twice, because Linux counts what a segment takes in memory, and by default offers half of a buffer as window
/// (`tcp_adv_win_scale` in the kernel's ip-sysctl).
pub fn buffer_bytes(rate_bit_s: f64, rtt_s: f64) -> f64 {
    (2.0 * bdp_bytes(rate_bit_s, rtt_s)).min(BUFFER_BYTES_MAX as f64)
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

/// The most one CUBIC stream carries under random loss, bit/s: an average window of `1.054 * (RTT/p)^(3/4)` segments
/// each round trip (RFC 9438, section 5.1, C = 0.4, beta = 0.7), or what Reno would get where that is more (its
/// Reno-friendly region).
pub fn cubic_bit_s(mss_bytes: f64, rtt_s: f64, loss: f64) -> f64 {
    let window_segments = 1.054 * rtt_s.powf(0.75) / loss.powf(0.75);
    (window_segments * mss_bytes * 8.0 / rtt_s).max(mathis_bit_s(mss_bytes, rtt_s, loss))
}

/// How long Reno needs to regain a rate after one loss, seconds: half the window back at one segment per round trip,
/// `C * RTT^2 / (2 * MSS * 8)`.
pub fn reno_recovery_s(rate_bit_s: f64, rtt_s: f64, mss_bytes: f64) -> f64 {
    rate_bit_s * rtt_s * rtt_s / (2.0 * mss_bytes * 8.0)
}

/// How long CUBIC needs to regain a rate after one loss, seconds, with `W` the window in segments: the earlier of
///
/// - the cubic, `K = cbrt(W * (1 - beta) / C)`, where the round trip counts only through `W` (RFC 9438, section 4.2);
/// - the Reno-friendly line, `W * (1 - beta)` segments back at `3 * (1 - beta) / (1 + beta)` = 0.53 of a segment per
///   round trip (section 4.3), which is ahead on short paths.
///
/// Counted from the end of fast recovery, without a further loss, and for a window at its peak (where the loss comes
/// below the last peak, fast convergence aims lower: section 4.7).
pub fn cubic_recovery_s(rate_bit_s: f64, rtt_s: f64, mss_bytes: f64) -> f64 {
    let lost_segments = bdp_bytes(rate_bit_s, rtt_s) / mss_bytes * (1.0 - CUBIC_BETA);
    let segments_per_rtt = 3.0 * (1.0 - CUBIC_BETA) / (1.0 + CUBIC_BETA);
    let cubic = (lost_segments / CUBIC_C).cbrt();
    cubic.min(lost_segments / segments_per_rtt * rtt_s)
}

/// How long one stream takes to go through all sequence numbers, seconds: `2^32 * 8 / B` (RFC 7323, section 5).
pub fn sequence_wrap_s(rate_bit_s: f64) -> f64 {
    SEQUENCE_BYTES * 8.0 / rate_bit_s
}

/// How late a segment may be before its sequence number looks new again, seconds: half of the numbers, `2^31 * 8 / B`. Time
/// stamps distinguish old from new as long as their clock ticks at least once in this time (RFC 7323, section 5); without
/// them, a segment that is this late can end up in the data.
pub fn sequence_doubt_s(rate_bit_s: f64) -> f64 {
    sequence_wrap_s(rate_bit_s) / 2.0
}
