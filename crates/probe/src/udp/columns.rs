//! A run in udpmon's columns, for scripts that read these.

use std::fmt::Write as _;

use model::v1::probe::udp::{UdpPoint, WIRE_BYTES};

/// The titles of [`row`], as udpmon_bw_mon prints them.
pub const TITLES: &str = " pkt len; num_sent; inter-pkt_time us; send_user_data_rate Mbit; num_recv; num_lost; \
num_badorder; %lost; num_lost_innet; %lost_innet; recv_user_data_rate Mbit; recv_wire_rate Mbit;";

/// The titles of [`shape`], which udpmon_bw_mon adds with -x.
pub const SHAPE_TITLES: &str = " num_in_hist; mean; sigma; median; iq25; iq75;";

/// One run as a row, with udpmon's spaces and rounding: times in µs, rates in Mbit/s, the ordered spacing (0 at maximum rate).
pub fn row(point: &UdpPoint) -> String {
    let (sent, received) = (&point.sent, &point.received);
    let bytes = f64::from(point.order.bytes);
    // Computed from bytes and seconds, as the rates of the result are rounded to bit/s.
    let mbit_s = |bytes: f64, many: u64, seconds: f64| {
        if seconds > 0.0 { bytes * 8.0 * many as f64 / seconds / 1e6 } else { 0.0 }
    };
    let mut row = format!(" {}; {};", point.order.bytes, sent.datagrams);
    let spacing_us = sent.spacing_target_s.unwrap_or(0.0) * 1e6;
    let _ = write!(row, "  {};  {};", general(spacing_us, 6), general(mbit_s(bytes, sent.datagrams, sent.seconds), 6));
    let _ = write!(row, " {}; {}; {};", received.datagrams, point.lost, received.reordered);
    let _ = write!(row, " {};", general(point.lost_share * 100.0, 2));
    let _ = write!(row, " {}; {};", point.lost_in_network, general(point.lost_in_network_share * 100.0, 2));
    for bytes in [bytes, bytes + WIRE_BYTES as f64] {
        let _ = write!(row, "  {};", general(mbit_s(bytes, received.datagrams, received.seconds), 6));
    }
    row.push_str("  ");
    row
}

/// The shape of the times between arrivals, µs; zeros where there is none.
pub fn shape(point: &UdpPoint) -> String {
    let spread = point.received.inter_arrival.clone().unwrap_or_default();
    let mut shape = format!("  {};", spread.count);
    for seconds in [spread.mean_s, spread.sigma_s, spread.p50_s, spread.p25_s, spread.p75_s] {
        let _ = write!(shape, " {};", general(seconds * 1e6, 6));
    }
    shape
}

/// Formats as C's printf does with `%.{digits}g`: significant digits without trailing zeros, and an exponent where it is below
/// -4 or not below `digits`.
fn general(value: f64, digits: usize) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0".into();
    }
    let rounded = format!("{:.*e}", digits - 1, value);
    let (mantissa, exponent) = rounded.split_once('e').unwrap_or((&rounded, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let short = |text: &str| {
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_string() } else { text.to_string() }
    };
    if exponent < -4 || exponent >= digits as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", short(mantissa), exponent.abs());
    }
    short(&format!("{:.*}", (digits as i32 - 1 - exponent).max(0) as usize, value))
}

#[cfg(test)]
mod tests {
    use model::v1::probe::udp::{UdpOrder, UdpPace, UdpReceived, UdpSent, UdpSpread};

    use super::*;

    fn a_point() -> UdpPoint {
        let pace = UdpPace::Spacing { spacing_s: 12.5e-6 };
        let order = UdpOrder { bytes: 1_472, pace, count: Some(10_000), seconds: None };
        let sent = UdpSent { datagrams: 10_000, seconds: 0.125, spacing_target_s: Some(12.5e-6), ..UdpSent::default() };
        let spread =
            UdpSpread { count: 9_989, mean_s: 12.5e-6, sigma_s: 1.25e-7, p50_s: 12.4e-6, ..UdpSpread::default() };
        let inter_arrival = Some(UdpSpread { p25_s: 12.3e-6, p75_s: 12.6e-6, ..spread });
        let received =
            UdpReceived { datagrams: 9_990, seconds: 0.124, reordered: 3, inter_arrival, ..Default::default() };
        super::super::point(order, sent, received)
    }

    #[test]
    fn a_row_is_as_udpmon_prints_it() {
        let row = row(&a_point());
        // 1472 * 8 * 10000 / 0.125 s = 942.08 Mbit/s; 1472 * 8 * 9990 / 0.124 s = 948.728; 1538 * 8 * 9990 / 0.124 s.
        assert_eq!(row, " 1472; 10000;  12.5;  942.08; 9990; 10; 3; 0.1; 10; 0.1;  948.728;  991.266;  ");
        let golden = " pkt len; num_sent; inter-pkt_time us; send_user_data_rate Mbit; num_recv; num_lost; num_badorder; \
                      %lost; num_lost_innet; %lost_innet; recv_user_data_rate Mbit; recv_wire_rate Mbit;";
        assert_eq!(TITLES, golden);
        assert_eq!(row.matches(';').count(), TITLES.matches(';').count());
    }

    #[test]
    fn a_shape_is_as_udpmon_prints_it() {
        assert_eq!(shape(&a_point()), "  9989; 12.5; 0.125; 12.4; 12.3; 12.6;");
        assert_eq!(SHAPE_TITLES.matches(';').count(), 6);
    }

    #[test]
    fn numbers_are_formatted_as_by_printf() {
        let six = [
            (0.0, "0"),
            (1.0, "1"),
            (100.0, "100"),
            (942.08, "942.08"),
            (999_999.0, "999999"),
            (999_999.5, "1e+06"),
            (1_234_567.0, "1.23457e+06"),
            (0.000_123_456_78, "0.000123457"),
            (0.000_012_5, "1.25e-05"),
            (52_086.666_7, "52086.7"),
        ];
        for (value, text) in six {
            assert_eq!(general(value, 6), text);
        }
        for (value, text) in [(0.1, "0.1"), (12.345, "12"), (99.6, "1e+02"), (0.012_34, "0.012"), (100.0, "1e+02")] {
            assert_eq!(general(value, 2), text);
        }
    }
}
