//! Times as people write them: `90s`, `15min`, `7d`, `250ms`, `20us`.
//!
//! Does not know: calendars. A day is 86,400 seconds.

use std::time::Duration;

use crate::units::{UnitError, split_number};

const REMEDY: &str = "write it like 250ms, 90s, 15min, 12h or 7d";

/// Reads a duration with its unit.
///
/// # Errors
/// The text is not a number with a unit of time: a bare number is refused, and so is a time that a [`Duration`] cannot hold.
pub fn parse(text: &str) -> Result<Duration, UnitError> {
    let error = || UnitError { text: text.into(), what: "time", remedy: REMEDY };
    let (number, unit) = split_number(text).ok_or_else(error)?;
    let seconds = match unit {
        "ns" => 1e-9,
        "us" | "µs" => 1e-6,
        "ms" => 0.001,
        "s" => 1.0,
        "min" | "m" => 60.0,
        "h" => 3_600.0,
        "d" => 86_400.0,
        "w" => 604_800.0,
        _ => return Err(error()),
    };
    Duration::try_from_secs_f64(number * seconds).map_err(|_| error())
}

/// Shows a span the way a person reads a clock: `0.4 s`, `12 s`, `3 min 20 s`, `2 h 05 min`, `4 d 3 h`.
pub fn show(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0 if span < Duration::from_millis(1) && !span.is_zero() => format!("{} µs", span.as_nanos() as f64 / 1e3),
        0..10 => format!("{:.1} s", span.as_secs_f64()),
        10..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{} h {:02} min", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_need_a_unit() {
        assert_eq!(parse("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse("15min"), Ok(Duration::from_secs(900)));
        assert_eq!(parse("7d"), Ok(Duration::from_secs(7 * 86_400)));
        assert_eq!(parse("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!((parse("2.5us"), parse("500ns")), (Ok(Duration::from_nanos(2_500)), Ok(Duration::from_nanos(500))));
        for bad in ["90", "", "s", "-3s", "1e99d", "99999999999999999999999999d"] {
            assert!(parse(bad).is_err(), "{bad} must be refused");
        }
    }

    #[test]
    fn a_duration_is_shown_in_its_largest_units() {
        assert_eq!(show(Duration::from_millis(420)), "0.4 s");
        assert_eq!(show(Duration::from_secs(200)), "3 min 20 s");
        assert_eq!(show(Duration::from_secs(7_500)), "2 h 05 min");
    }
}
