//! Sizes and rates, with one spelling each: sizes in bytes (`500MB` = 10^6, `4GiB` = 2^30), rates in decimal bit/s.
//!
//! Rates with a binary prefix of bits, and bare numbers as rates, are refused: "200" means bytes, bits or megabits to different tools.

use std::fmt;
use std::str::FromStr;

/// A size or count of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

/// A rate in bits per second, decimal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BitRate(pub u64);

/// Why a size, rate or duration could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a {what}: {remedy}")]
pub struct UnitError {
    /// What was typed.
    pub text: String,
    /// What it should have been: "size", "rate" or "time".
    pub what: &'static str,
    /// How to write it.
    pub remedy: &'static str,
}

const SIZE_REMEDY: &str = "write it like 500MB (10^6), 4GiB (2^30) or 1048576 (bytes)";
const RATE_REMEDY: &str = "write it with its unit, like 200Mbit/s, 2Gbit/s, 25MB/s or 200M (Mbit/s)";

/// Splits `12.5GiB` into `12.5` and `GiB`.
pub(crate) fn split_number(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    number.is_finite().then(|| (number, text[end..].trim()))
}

/// Multiplies exactly where the number is whole, and refuses what does not fit 64 bits.
fn scale(number: f64, factor: u64) -> Option<u64> {
    let exact = number * factor as f64;
    if exact >= u64::MAX as f64 {
        return None;
    }
    if number.fract() == 0.0 {
        return (number as u64).checked_mul(factor);
    }
    Some(exact.round() as u64)
}

fn decimal_prefix(prefix: &str) -> Option<u64> {
    Some(match prefix {
        "" => 1,
        "k" | "K" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "T" => 1_000_000_000_000,
        "P" => 1_000_000_000_000_000,
        _ => return None,
    })
}

fn binary_prefix(prefix: &str) -> Option<u64> {
    Some(match prefix {
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        "Ti" => 1 << 40,
        "Pi" => 1 << 50,
        _ => return None,
    })
}

impl FromStr for Bytes {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let error = || UnitError { text: text.into(), what: "size", remedy: SIZE_REMEDY };
        // Bare digits are read as an integer, so that 2^63 + 1 does not pass through a float.
        if let Ok(bytes) = text.trim().parse::<u64>() {
            return Ok(Bytes(bytes));
        }
        let (number, unit) = split_number(text).ok_or_else(error)?;
        let prefix = unit.strip_suffix('B').unwrap_or(unit);
        let factor = decimal_prefix(prefix).or_else(|| binary_prefix(prefix)).ok_or_else(error)?;
        scale(number, factor).map(Bytes).ok_or_else(error)
    }
}

impl FromStr for BitRate {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let error = || UnitError { text: text.into(), what: "rate", remedy: RATE_REMEDY };
        let (number, unit) = split_number(text).ok_or_else(error)?;
        let per_second = unit.strip_suffix("/s").or_else(|| unit.strip_suffix("ps"));
        let factor = match per_second {
            // A prefix alone, "200M", means Mbit/s; no prefix and no unit means nothing.
            None if unit.is_empty() => return Err(error()),
            None => decimal_prefix(unit.strip_suffix("bit").unwrap_or(unit)).ok_or_else(error)?,
            Some(unit) => {
                let (prefix, bits) = match unit.strip_suffix("bit").or_else(|| unit.strip_suffix('b')) {
                    Some(prefix) => (prefix, 1),
                    None => (unit.strip_suffix('B').ok_or_else(error)?, 8),
                };
                decimal_prefix(prefix).or_else(|| binary_prefix(prefix).filter(|_| bits == 8)).ok_or_else(error)? * bits
            }
        };
        match scale(number, factor) {
            Some(0) | None => Err(error()),
            Some(rate) => Ok(BitRate(rate)),
        }
    }
}

impl fmt::Display for Bytes {
    /// Binary prefixes, two to three significant digits: `1.50 GiB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const PREFIXES: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        if self.0 < 1024 {
            return write!(f, "{} B", self.0);
        }
        let mut value = self.0 as f64 / 1024.0;
        let mut at = 0;
        while value >= 1024.0 && at + 1 < PREFIXES.len() {
            value /= 1024.0;
            at += 1;
        }
        write!(f, "{value:.prec$} {}", PREFIXES[at], prec = digits_after(value))
    }
}

impl fmt::Display for BitRate {
    /// Decimal prefixes: `9.41 Gbit/s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const PREFIXES: [&str; 5] = ["", "k", "M", "G", "T"];
        let mut value = self.0 as f64;
        let mut at = 0;
        while value >= 1000.0 && at + 1 < PREFIXES.len() {
            value /= 1000.0;
            at += 1;
        }
        let prec = if at == 0 { 0 } else { digits_after(value) };
        write!(f, "{value:.prec$} {}bit/s", PREFIXES[at])
    }
}

fn digits_after(value: f64) -> usize {
    match value {
        v if v < 10.0 => 2,
        v if v < 100.0 => 1,
        _ => 0,
    }
}

impl BitRate {
    /// The mean rate of `bytes` over `seconds`; zero where no time passed.
    pub fn mean(bytes: Bytes, seconds: f64) -> BitRate {
        if seconds <= 0.0 {
            return BitRate(0);
        }
        BitRate((bytes.0 as f64 * 8.0 / seconds).round() as u64)
    }

    /// The rate in bytes per second, rounded down.
    pub fn bytes_per_second(self) -> u64 {
        self.0 / 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_read_in_bytes_or_refused() {
        let size = |s: &str| s.parse::<Bytes>().map(|b| b.0);
        assert_eq!(size("500MB"), Ok(500_000_000));
        assert_eq!(size("4GiB"), Ok(4 << 30));
        assert_eq!(size("1.5KiB"), Ok(1536));
        assert_eq!(size("18446744073709551615"), Ok(u64::MAX));
        assert_eq!(size("7"), Ok(7));
        for bad in ["", "GB", "-1", "4gib", "1e9", "20000PiB", "5 apples"] {
            assert!(size(bad).is_err(), "{bad} must be refused");
        }
    }

    #[test]
    fn rates_need_a_unit() {
        let rate = |s: &str| s.parse::<BitRate>().map(|b| b.0);
        assert_eq!(rate("200Mbit/s"), Ok(200_000_000));
        assert_eq!(rate("2Gbit/s"), Ok(2_000_000_000));
        assert_eq!(rate("25MB/s"), Ok(200_000_000));
        assert_eq!(rate("200M"), Ok(200_000_000));
        assert_eq!(rate("1.5Gbps"), Ok(1_500_000_000));
        for bad in ["200", "", "fast", "0M", "10Mibit/s", "200 parsecs/s"] {
            assert!(rate(bad).is_err(), "{bad} must be refused");
        }
    }

    #[test]
    fn sizes_and_rates_are_shown_with_units() {
        assert_eq!(Bytes(1023).to_string(), "1023 B");
        assert_eq!(Bytes(3 << 29).to_string(), "1.50 GiB");
        assert_eq!(BitRate(9_410_000_000).to_string(), "9.41 Gbit/s");
        assert_eq!(BitRate::mean(Bytes(1_000_000), 1.0), BitRate(8_000_000));
    }
}
