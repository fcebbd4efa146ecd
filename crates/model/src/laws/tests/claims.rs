//! Numbers that operators and projects publish about their paths, computed again: numbers that hold, numbers that do not, and numbers
//! that follow from published ones. docs/claims.md lists those that do not hold, under the same names.
//!
//! Names: W windows and ramps, R recovery and loss, U packets, D volumes, B rate times distance, P disks, tape and
//! samples, C cost and capacity, S score card.

use super::super::{freight::*, line::*, *};
use super::{GBIT, MIB};
use crate::units::BitRate;

const DAY: f64 = 86_400.0;
const HOUR: f64 = 3_600.0;
const TB: f64 = 1e12;
const PB: f64 = 1e15;

/// A name, the computed number, the published number, and how far the two may be apart, as a fraction of the published one.
type Claim = (&'static str, f64, f64, f64);

#[track_caller]
fn hold(claims: &[Claim]) {
    for (name, computed, stated, tolerance) in claims {
        let off = computed / stated - 1.0;
        assert!(off.abs() <= *tolerance, "{name}: {computed} is off {stated} by {:.2} %", off * 100.0);
    }
}

/// A rate as it is typed, in bit/s.
fn typed(rate: &str) -> f64 {
    rate.parse::<BitRate>().unwrap().0 as f64
}

fn mean(samples: &[f64]) -> f64 {
    samples.iter().sum::<f64>() / samples.len() as f64
}

#[test]
fn windows_and_ramps_hold() {
    hold(&[
        ("W1 1023 MiB over 303 ms", window_rate_bit_s(1023.0 * MIB, 0.303), 28.32 * GBIT, 0.001),
        ("W3 the largest window", WINDOW_BYTES_MAX as f64, 1024.0 * MIB, 0.001),
        ("W5 100 Gbit/s, 303 ms", bdp_bytes(100.0 * GBIT, 0.303), 3.78e9, 0.003),
        ("W6 37 Gbit/s, 7.5 ms", bdp_bytes(37.0 * GBIT, 0.0075), 34.7e6, 0.001),
        ("W7 35 MB over 7.5 ms", window_rate_bit_s(35e6, 0.0075), 37.0 * GBIT, 0.01),
        ("W8 3 Gbit/s, 259 ms", bdp_bytes(3.0 * GBIT, 0.259), 97e6, 0.002),
        ("W9 100 MB each 259 ms", window_rate_bit_s(100e6, 0.259), 3.0 * GBIT, 0.03),
        ("W11 10 Gbit/s, 32 ms", bdp_bytes(10.0 * GBIT, 0.032), 40e6, 0.001),
        ("W13 10 Gbit/s, 142 ms", bdp_bytes(10.0 * GBIT, 0.142), 178e6, 0.003),
        ("W15 10 Gbit/s, 0.4 ms", bdp_bytes(10.0 * GBIT, 0.0004), 0.5e6, 0.001),
        ("W17 ten round trips of 259 ms", 10.0 * 0.259, 2.6, 0.005),
        ("W18 slow start to 97 MB, 259 ms", slow_start_s(97e6, 8948.0, 0.259), 2.6, 0.005),
        ("W21 all sequence numbers at 100 Gbit/s", sequence_wrap_s(100.0 * GBIT), 0.33, 0.05),
    ]);
}

#[test]
fn recovery_and_loss_hold() {
    let reno = |rtt_s| reno_recovery_s(10.0 * GBIT, rtt_s, 9000.0);
    hold(&[
        ("R1 within the UK, 6 ms", reno(0.006), 2.5, 0.001),
        ("R2 to Europe, 25 ms", reno(0.025), 43.0, 0.01),
        ("R3 to the USA, 150 ms", reno(0.150), 26.0 * 60.0, 0.002),
        ("R4 to Australia, 300 ms", reno(0.300), 104.0 * 60.0, 0.002),
        ("R7 0.0046 % is one packet in", 1.0 / 4.6e-5, 22_000.0, 0.02),
    ]);
}

#[test]
fn packets_hold() {
    hold(&[
        ("U1 7813 B each 1.2 us", needed_bit_s(7813.0, 1.2e-6), 50.0 * GBIT, 0.05),
        ("U2 8972 B each 0.8 us", needed_bit_s(8972.0, 0.8e-6), 89.8 * GBIT, 0.001),
    ]);
}

#[test]
fn volumes_hold() {
    hold(&[
        ("D2 two flows of 28.3 Gbit/s", 2.0 * 28.3 * GBIT, 56.6 * GBIT, 0.001),
        ("D4 two flows, ramp and all, in 4 min", carried_bytes(2.0 * 26.1 * GBIT, 240.0), 1.55 * TB, 0.02),
        ("D6 1 TB in 3:29", needed_bit_s(TB, 209.0), typed("4.78GB/s"), 0.002),
        ("D7 1 TB in 3:02", needed_bit_s(TB, 182.0), typed("5.48GB/s"), 0.003),
        ("D8 1 TB in 15 min", needed_bit_s(TB, 900.0), typed("1.12GB/s"), 0.01),
        ("D9 1 TB in 26 min", needed_bit_s(TB, 1_560.0), typed("652.3MB/s"), 0.02),
        ("D11 2 TB at 700 kB/s", transfer_s(2.0 * TB, typed("700kB/s"), 1.0), 35.0 * DAY, 0.06),
        ("D14 100 TB in a day", needed_bit_s(100.0 * TB, DAY), 10.0 * GBIT, 0.08),
        ("D15 30 MB/s", typed("30MB/s"), 240e6, 0.001),
        ("D16 10 TB at 30 MB/s", transfer_s(10.0 * TB, typed("30MB/s"), 1.0), 4.0 * DAY, 0.04),
        ("D17 2 Gbit/s for an hour, about", carried_bytes(2.0 * GBIT, HOUR), TB, 0.11),
        ("D21 30 TB in an hour", needed_bit_s(30.0 * TB, HOUR), 70.0 * GBIT, 0.05),
        ("D22 7.5 TB in 3 h", needed_bit_s(7.5 * TB, 3.0 * HOUR), 6.0 * GBIT, 0.08),
        ("D29 300 Gbit/s for a day", carried_bytes(300.0 * GBIT, DAY), 3.0 * PB, 0.081),
        ("D30 350 PB in 7 Ms, bytes", needed_bit_s(350.0 * PB, 7e6) / 8.0, 50e9, 0.001),
        ("D31 350 PB in 7 Ms, bits", needed_bit_s(350.0 * PB, 7e6), 400.0 * GBIT, 0.001),
        ("S1 a third of 1 TB in an hour, bytes", needed_bit_s(TB / 3.0, HOUR) / 8.0, 92.6e6, 0.001),
        ("S2 a third of 1 TB in an hour, bits", needed_bit_s(TB / 3.0, HOUR), 740.7e6, 0.001),
        ("P1 a disk written", typed("6.73GB/s"), 53.87 * GBIT, 0.001),
        ("P2 a disk read", typed("12.39GB/s"), 99.12 * GBIT, 0.001),
        ("P4 1 TB from three tapes of 1 TB/h", transfer_s(TB, 3.0 * needed_bit_s(TB, HOUR), 1.0), 1_200.0, 0.001),
        ("C10 two days at 1 PB a day", carried_bytes(needed_bit_s(PB, DAY), 2.0 * DAY), 2.0 * PB, 0.001),
    ]);
}

/// Claims that are published as bounds.
#[test]
fn bounds_hold() {
    assert!(transfer_s(PB, 400.0 * GBIT, 1.0) <= 8.0 * HOUR, "P11 1 PB in a shift at 400 Gbit/s");
    let pcie4_x16_bit_s = 16e9 * 16.0 * 128.0 / 130.0;
    assert!(pcie4_x16_bit_s >= 200.0 * GBIT, "C11 one slot of PCIe 4.0 x16 feeds two ports of 100 Gbit/s");
    assert!(pcie4_x16_bit_s / 2.0 < 200.0 * GBIT, "and one of PCIe 3.0 does not");
}

/// Rate times distance, the measure of the Internet2 land speed records, in 10^15 bit m/s.
#[test]
fn records_hold() {
    let record = |rate_mbit_s: f64, distance_km: f64| rate_mbit_s * 1e6 * distance_km * 1e3 / 1e15;
    hold(&[
        ("B1", record(925.0, 10_037.0), 9.28, 0.001),
        ("B2", record(1_797.0, 10_037.0), 18.03, 0.001),
        ("B3", record(6_123.0, 3_948.0), 24.17, 0.001),
        ("B4", record(7_940.0, 3_948.0), 31.35, 0.001),
        ("B5", record(8_609.0, 3_948.0), 33.99, 0.001),
        ("B6", record(266.0, 10_037.0), 2.67, 0.001),
        ("B7", record(931.0, 10_037.0), 9.35, 0.001),
    ]);
}

/// Sums, growth and means: no path law, but the planner starts from these numbers.
#[test]
fn sums_hold() {
    let cubic = [197.963, 197.941, 197.804, 197.762, 197.985, 197.705, 197.874, 198.116, 197.928];
    let bbr = [172.095, 153.968, 163.87, 162.587, 161.984, 156.793, 163.431, 167.796, 166.956];
    let two_threads = [139.139, 139.985, 144.703, 132.307, 133.943, 140.426];
    hold(&[
        ("D32 LHC data challenge, minimal model, Gbit/s", ((400.0 + 100.0) * 2.0 + 200.0) * 4.0, 4_800.0, 0.001),
        ("D33 its flexible model", 2.0 * 4_800.0, 9_600.0, 0.001),
        ("D34 12 times in 8 years, per cent a year", (12f64.powf(1.0 / 8.0) - 1.0) * 100.0, 40.0, 0.09),
        ("D35 70 % a year for ten years", 1.7f64.powi(10), 200.0, 0.01),
        ("D36 doubled each year for ten years", 2f64.powi(10), 1_000.0, 0.03),
        ("P5 five threads over four, per cent", (198.2 / 197.9 - 1.0) * 100.0, 0.15, 0.02),
        ("P7 CUBIC, nine samples", mean(&cubic), 197.9, 0.001),
        ("P8 BBR, nine samples", mean(&bbr), 163.3, 0.001),
        ("P9 two threads, six samples", mean(&two_threads), 138.4, 0.001),
        ("C1 16 sites at 50 kEUR, MEUR", 16.0 * 50e3 / 1e6, 0.8, 0.001),
        ("C2 16 sites at 15 kEUR, MEUR", 16.0 * 15e3 / 1e6, 0.25, 0.05),
        ("C5 one regional centre at its peak, Gbit/s", 40.0 + 10.0 + 10.0 + 10.0, 70.0, 0.001),
        ("C6 five flows of 20 Gbit/s", 5.0 * 20.0, 100.0, 0.001),
        ("C8 wavelengths of one cable, Gbit/s", 2.0 * 300.0 + 2.0 * 200.0, 1_000.0, 0.001),
        ("C9 Sydney to Singapore, km", 4_600.0 + 4_600.0, 9_200.0, 0.001),
    ]);
}

/// Numbers that do not hold: a name, the computed number, the published number, and by which fraction of the published one they
/// differ. A claim that holds after all makes this test fail.
#[test]
fn claims_that_do_not_hold_differ_by_the_documented_fraction() {
    let ramp_303_ms = slow_start_s(bdp_bytes(28.3 * GBIT, 0.303), 8948.0, 0.303);
    // From one segment instead of ten: as long as from ten to a window that is ten times as large.
    let ramp_from_one = slow_start_s(INITIAL_WINDOW_SEGMENTS * 97e6, 8948.0, 0.259);
    let off: &[Claim] = &[
        ("W2 MB read as 10^6", window_rate_bit_s(1023e6, 0.303), 28.32 * GBIT, -0.0463),
        ("W14 product of 100 Gbit/s, 0.4 ms", bdp_bytes(100.0 * GBIT, 0.0004), 0.5e6, 9.0),
        ("W16 round trip of 0.5 MB at 75 Gbit/s", window_rtt_s(0.5e6, 75.0 * GBIT), 0.0004, -0.8667),
        ("W19 slow start from one segment", ramp_from_one, 2.6, 0.3353),
        ("W20 slow start alone", ramp_303_ms, 15.0, -0.7263),
        ("D1 1 PB a day", needed_bit_s(PB, DAY), 100.0 * GBIT, -0.0741),
        ("D3 two plateaus for 4 min", carried_bytes(2.0 * 28.3 * GBIT, 240.0), 1.55 * TB, 0.0955),
        ("D10 2 TB at 700 kbit/s", transfer_s(2.0 * TB, 700e3, 1.0), 35.0 * DAY, 6.5586),
        ("D12 2 TB in 40 min, mean", needed_bit_s(2.0 * TB, 2_400.0), 8.0 * GBIT, -0.1667),
        ("D18 12 TB at 4 Gbit/s", transfer_s(12.0 * TB, 4.0 * GBIT, 1.0), 6.0 * HOUR, 0.1111),
        ("D19 12 TB at 2 Gbit/s", transfer_s(12.0 * TB, 2.0 * GBIT, 1.0), 12.0 * HOUR, 0.1111),
        ("D25 620 Mbit/s for two days", carried_bytes(620e6, 2.0 * DAY), 15.0 * TB, -0.1072),
        ("D27 1.1 PB a day", needed_bit_s(1.1 * PB, DAY), 44.0 * GBIT, 1.3148),
    ];
    for (name, computed, stated, difference) in off {
        let found = computed / stated - 1.0;
        assert!((found - difference).abs() <= 0.0002, "{name}: {computed} is off {stated} by {found}");
    }
    // W3 as it is printed, 2^(16 + 2^14), is not a size.
    assert!(2f64.powi(16 + (1 << 14)).is_infinite());
}

/// Numbers that follow from published ones and that nobody has published.
#[test]
fn numbers_that_follow_from_the_claims_hold() {
    hold(&[
        ("W4 the largest window over 303 ms", window_rate_bit_s(WINDOW_BYTES_MAX as f64, 0.303), 28.35 * GBIT, 0.001),
        ("W10 100 MB in what 210 of 259 ms leave", window_rate_bit_s(100e6, 0.259 - 0.210), 16.33 * GBIT, 0.001),
        ("W12 round trip of 190 MB at 10 Gbit/s", window_rtt_s(190e6, 10.0 * GBIT), 0.152, 0.001),
        ("W22 all sequence numbers at 28.3 Gbit/s", sequence_wrap_s(28.3 * GBIT), 1.214, 0.001),
        ("W23 the usual 4 MiB over 303 ms", window_rate_bit_s(4.0 * MIB, 0.303), 110.7e6, 0.001),
        ("R5 to the USA with 1448 B, min", reno_recovery_s(10.0 * GBIT, 0.15, 1448.0) / 60.0, 161.9, 0.001),
        ("R6 to Australia with 1448 B, h", reno_recovery_s(10.0 * GBIT, 0.3, 1448.0) / HOUR, 10.79, 0.001),
        ("R8 Reno, 0.0046 %, 10 ms", mathis_bit_s(1460.0, 0.01, 4.6e-5), 210.9e6, 0.001),
        ("R9 Reno, 0.0046 %, 100 ms, jumbo", mathis_bit_s(8960.0, 0.1, 4.6e-5), 129.4e6, 0.001),
        ("R10 Reno, 0.3 %, 10 ms", mathis_bit_s(1460.0, 0.01, 0.003), 26.12e6, 0.001),
        ("U3 8972 B of UDP each 0.8 us, on the line", on_the_line(8972.0, 0.8e-6), 90.38 * GBIT, 0.001),
        ("U4 spacing of 8972 B at 30 Gbit/s", serialisation_s(8972.0, 30.0 * GBIT), 2.393e-6, 0.001),
        ("D5 1 TB in an hour", needed_bit_s(TB, HOUR), 2.222 * GBIT, 0.001),
        ("D13 10 TB in a week", needed_bit_s(10.0 * TB, 7.0 * DAY), 132.3e6, 0.001),
        ("D14 100 TB at 10 Gbit/s, h", transfer_s(100.0 * TB, 10.0 * GBIT, 1.0) / HOUR, 22.2, 0.002),
        ("D20 200 TB at 2.5 Gbit/s, d", transfer_s(200.0 * TB, 2.5 * GBIT, 1.0) / DAY, 7.407, 0.001),
        ("D23 7.5 TB in 21 h", needed_bit_s(7.5 * TB, 21.0 * HOUR), 0.7937 * GBIT, 0.001),
        ("D24 100 Gbit/s on 1000 disks, B/s each", 100.0 * GBIT / 8.0 / 1_000.0, 12.5e6, 0.001),
        ("D26 475 TB in a day", needed_bit_s(475.0 * TB, DAY), 43.98 * GBIT, 0.001),
        ("D28 19 GB/s for a day", carried_bytes(typed("19GB/s"), DAY), 1.642 * PB, 0.001),
        ("P3 a tape of 1 TB/h, B/s", needed_bit_s(TB, HOUR) / 8.0, 277.8e6, 0.001),
        ("P10 1 GB in 6 s", needed_bit_s(1e9, 6.0), 1.333 * GBIT, 0.001),
        ("C4 a full 100 Gbit/s for 1 MUSD a year, USD/TB", 1e6 / tb_of_a_year(100.0 * GBIT), 2.537, 0.001),
        ("S3 1 PB in a week", needed_bit_s(PB, 7.0 * DAY), 13.23 * GBIT, 0.001),
    ]);
}

/// The rate that UDP datagrams at a spacing take on the line, bit/s.
fn on_the_line(payload_bytes: f64, spacing_s: f64) -> f64 {
    needed_bit_s(wire_bytes(payload_bytes + UDP_IPV4_BYTES), spacing_s)
}

/// The volume that a rate carries in a year, TB.
fn tb_of_a_year(rate_bit_s: f64) -> f64 {
    carried_bytes(rate_bit_s, 365.0 * DAY) / TB
}

/// A window of 1023 MiB: rates by round trip, and the streams that fill 100 Gbit/s.
#[test]
fn a_window_carries_the_published_rate_at_each_round_trip() {
    for (rtt_ms, gbit_s, streams) in [
        (7.5, 1_144.21, 1),
        (14.1, 608.62, 1),
        (56.5, 151.89, 1),
        (142.0, 60.43, 2),
        (180.0, 47.68, 3),
        (259.0, 33.13, 4),
        (303.0, 28.32, 4),
    ] {
        let (window, rtt_s) = (1023.0 * MIB, rtt_ms / 1e3);
        hold(&[("rate of the window", window_rate_bit_s(window, rtt_s), gbit_s * GBIT, 0.001)]);
        assert_eq!(streams_for_window(100.0 * GBIT, rtt_s, window), streams, "{rtt_ms} ms");
    }
}

/// Reno at 0.0046 % by round trip, for 1460 and 8948 bytes, Gbit/s. The table was computed with 1.22 for `sqrt(3/2)`
/// and rounded to four places: 1 %.
#[test]
fn reno_has_the_published_rate_at_each_round_trip() {
    for (rtt_ms, small, jumbo) in [
        (1.0, 2.101, 12.8765),
        (10.0, 0.2101, 1.2876),
        (40.0, 0.0525, 0.3219),
        (100.0, 0.021, 0.1288),
        (150.0, 0.014, 0.0858),
        (250.0, 0.0084, 0.0515),
        (303.0, 0.0069, 0.0425),
    ] {
        let rate = |mss_bytes| mathis_bit_s(mss_bytes, rtt_ms / 1e3, 4.6e-5) / GBIT;
        hold(&[("1460 B", rate(1460.0), small, 0.01), ("8948 B", rate(8948.0), jumbo, 0.01)]);
    }
}
