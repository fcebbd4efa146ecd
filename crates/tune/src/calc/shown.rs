//! Formats numbers for people: three digits and a prefix, bytes both in decimal and in binary.

use std::time::Duration;

use model::{Bytes, duration};

/// The unit of a line of the calculator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Bytes,
    BitRate,
    PacketRate,
    Seconds,
    Streams,
    Share,
    Ratio,
}

impl Unit {
    /// The unit of the bare number.
    pub(super) fn word(self) -> &'static str {
        match self {
            Unit::Bytes => "B",
            Unit::BitRate => "bit/s",
            Unit::PacketRate => "packets/s",
            Unit::Seconds => "s",
            Unit::Streams => "streams",
            Unit::Share | Unit::Ratio => "1",
        }
    }

    /// The number with its unit.
    pub(super) fn show(self, value: f64) -> String {
        match self {
            Unit::Bytes => bytes(value),
            Unit::BitRate => decimal(value, "bit/s"),
            Unit::PacketRate => decimal(value, "pps"),
            Unit::Seconds => seconds(value),
            Unit::Streams => format!("{value:.0}"),
            Unit::Share => format!("{:.1} %", value * 100.0),
            Unit::Ratio => format!("{} times", digits(value)),
        }
    }
}

/// `375 MB (358 MiB)`: kernels and tools use "MB" for either, and these differ by 4.9 %.
fn bytes(value: f64) -> String {
    if value < 1024.0 {
        return format!("{value:.0} B");
    }
    format!("{} ({})", decimal(value, "B"), Bytes(value.round() as u64))
}

fn decimal(value: f64, unit: &str) -> String {
    const PREFIXES: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];
    let mut value = value;
    let mut at = 0;
    while value >= 1000.0 && at + 1 < PREFIXES.len() {
        value /= 1000.0;
        at += 1;
    }
    format!("{} {}{unit}", digits(value), PREFIXES[at])
}

/// Below a minute with a prefix, above that in minutes, hours and so on.
fn seconds(value: f64) -> String {
    match value {
        0.0 => "0 s".into(),
        v if v < 1e-6 => format!("{} ns", digits(v * 1e9)),
        v if v < 1e-3 => format!("{} us", digits(v * 1e6)),
        v if v < 1.0 => format!("{} ms", digits(v * 1e3)),
        v if v < 60.0 => format!("{} s", digits(v)),
        v => Duration::try_from_secs_f64(v).map_or_else(|_| format!("{v:.2e} s"), duration::show),
    }
}

/// Three digits, and more if there are more before the point.
fn digits(value: f64) -> String {
    let after = match value {
        v if v < 10.0 => 2,
        v if v < 100.0 => 1,
        _ => 0,
    };
    format!("{value:.after$}")
}
