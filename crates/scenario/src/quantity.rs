//! Rates, sizes, times, probabilities and MTUs as a scenario writes them.
//!
//! Does not know: which words have which of these.

use std::ops::RangeInclusive;
use std::time::Duration;

use model::duration;
use model::units::{BitRate, Bytes, UnitError};

use super::problem::Problem;
use super::source::{Entry, Value};

/// The smallest MTU that IPv4 allows.
const MTU_MIN: i128 = 68;
/// The longest delay. Far longer than any on Earth; short enough that no sum of delays overflows.
const DELAY_MAX: Duration = Duration::from_secs(3_600);
/// The rates that a link can compute with: no segment takes hours, and no packet less than a picosecond.
const RATES: RangeInclusive<BitRate> = BitRate(1_000)..=BitRate(1_000_000_000_000_000);
const FRACTION_REMEDY: &str = "write it like \"0.01%\", or as a fraction from 0 to 1 without quotes";
const SIZE_REMEDY: &str = "write it with its unit, in quotes, like \"40MB\" or \"512KiB\"";

/// A rate that is not zero. `zero` says what to write instead.
pub(super) fn rate(entry: &Entry, zero: &str) -> Result<BitRate, Problem> {
    if is_zero(&entry.value) {
        return Err(entry.problem(format!("{} is zero", entry.key), zero));
    }
    let text = entry.text("write it with its unit, in quotes, like \"1Gbit/s\"")?;
    let rate = text.parse().map_err(|error: UnitError| entry.wrong(error.remedy))?;
    if RATES.contains(&rate) { Ok(rate) } else { Err(entry.wrong("write a rate from 1kbit/s to 1Pbit/s")) }
}

/// Whether `bytes` take longer at `rate` than any delay may be.
pub(super) fn takes_too_long(bytes: Bytes, rate: BitRate) -> bool {
    bytes.0 / rate.bytes_per_second().max(1) > DELAY_MAX.as_secs()
}

/// Whether the number before the unit is 0.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Whole(whole) => *whole == 0,
        Value::Fraction(fraction) => *fraction == 0.0,
        Value::Text(text) => {
            let number = text.trim().trim_end_matches(|c: char| !c.is_ascii_digit());
            number.parse::<f64>().is_ok_and(|number| number == 0.0)
        }
        _ => false,
    }
}

/// A size with a unit that is not zero.
pub(super) fn size(entry: &Entry) -> Result<Bytes, Problem> {
    let text = entry.text(SIZE_REMEDY)?;
    if text.trim().parse::<f64>().is_ok() {
        return Err(entry.problem(format!("{} = {text:?} has no unit", entry.key), SIZE_REMEDY));
    }
    match text.parse() {
        Ok(Bytes(0)) => Err(entry.problem(format!("{} is zero", entry.key), "leave it out, or write a size")),
        Ok(bytes) => Ok(bytes),
        Err(_) => Err(entry.wrong(SIZE_REMEDY)),
    }
}

/// A time.
pub(super) fn time(entry: &Entry) -> Result<Duration, Problem> {
    let text = entry.text("write it with its unit, in quotes, like \"303ms\" or \"90s\"")?;
    duration::parse(text).map_err(|error| entry.wrong(error.remedy))
}

/// A delay of packets.
pub(super) fn delay(entry: &Entry) -> Result<Duration, Problem> {
    let time = time(entry)?;
    if time <= DELAY_MAX { Ok(time) } else { Err(entry.wrong("write a time of one hour at most")) }
}

/// A probability.
pub(super) fn probability(entry: &Entry) -> Result<f64, Problem> {
    let fraction = match &entry.value {
        Value::Fraction(fraction) => Some(*fraction),
        Value::Whole(1) => {
            let what = format!("{} = 1 may mean 1 % or all", entry.key);
            return Err(entry.problem(what, "write \"1%\", or \"100%\""));
        }
        Value::Whole(whole) => Some(*whole as f64),
        Value::Text(text) => {
            let percent = text.trim().strip_suffix('%').and_then(|percent| percent.trim().parse::<f64>().ok());
            percent.map(|percent| percent / 100.0)
        }
        _ => None,
    };
    match fraction {
        None => Err(entry.wrong(FRACTION_REMEDY)),
        Some(fraction) if (0.0..=1.0).contains(&fraction) => Ok(fraction),
        Some(_) => Err(entry.problem(
            format!("{} is a probability, which {} is not", entry.key, entry.value.show()),
            "write something from \"0%\" to \"100%\", or a fraction from 0 to 1",
        )),
    }
}

/// A number within a range.
pub(super) fn number(entry: &Entry, range: RangeInclusive<f64>, remedy: &str) -> Result<f64, Problem> {
    let number = match entry.value {
        Value::Whole(whole) => whole as f64,
        Value::Fraction(fraction) => fraction,
        _ => f64::NAN,
    };
    if range.contains(&number) { Ok(number) } else { Err(entry.wrong(remedy)) }
}

/// An MTU.
pub(super) fn mtu(entry: &Entry) -> Result<u16, Problem> {
    entry.whole(MTU_MIN..=i128::from(u16::MAX))
}
