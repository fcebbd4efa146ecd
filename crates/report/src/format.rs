//! Formats numbers for reports. The files may come from untrusted sources: an impossible time, rate or share becomes a dash.

use model::units::{BitRate, Bytes};

/// Stands for an unknown value.
pub const NONE: &str = "–";

fn known(value: f64, show: impl Fn(f64) -> String) -> String {
    if value.is_finite() && value >= 0.0 { show(value) } else { NONE.to_owned() }
}

/// Formats a value that may be unknown.
pub fn maybe(value: Option<f64>, show: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| NONE.to_owned(), show)
}

/// `1.50 s`, `12 min 5 s`, `3 h 7 min`.
pub fn seconds(value: f64) -> String {
    known(value, |s| {
        let whole = s.round() as u64;
        match s {
            s if s < 120.0 => format!("{s:.2} s"),
            s if s < 7_200.0 => format!("{} min {} s", whole / 60, whole % 60),
            s if s < 1e9 => format!("{} h {} min", whole / 3600, whole % 3600 / 60),
            s => format!("{s:.1e} s"),
        }
    })
}

/// A round trip.
pub fn ms(value: f64) -> String {
    known(value, |s| {
        let ms = s * 1e3;
        match ms {
            ms if ms < 9.995 => format!("{ms:.3} ms"),
            ms if ms < 99.95 => format!("{ms:.1} ms"),
            ms if ms < 1e9 => format!("{ms:.0} ms"),
            ms => format!("{ms:.1e} ms"),
        }
    })
}

/// A moment on a chart's axis.
pub fn moment(value: f64) -> String {
    known(value, |s| if s < 1e6 { format!("{s:.2} s") } else { format!("{s:.2e} s") })
}

/// Bits per second.
pub fn rate(value: f64) -> String {
    known(value, |bit_s| BitRate(bit_s.round() as u64).to_string())
}

/// A size.
pub fn bytes(value: f64) -> String {
    known(value, |bytes| Bytes(bytes.round() as u64).to_string())
}

/// A share, where 1 is all.
pub fn percent(value: f64) -> String {
    known(value, |share| {
        let digits = match share {
            share if share == 0.0 || share >= 0.0995 => 0,
            share if share >= 0.01 => 1,
            share if share >= 0.001 => 2,
            _ => 4,
        };
        if share < 1e6 { format!("{:.digits$} %", share * 100.0) } else { format!("{share:.1e}") }
    })
}

/// A part of a whole; a dash if the whole is 0.
pub fn part_of(part: f64, whole: f64) -> String {
    percent(part / whole)
}

/// A count.
pub fn count(value: f64) -> String {
    known(value, |count| if count < 1e15 { format!("{count:.0}") } else { format!("{count:.1e}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_is_short() {
        assert_eq!([seconds(8.9), seconds(125.4), seconds(11_220.0)], ["8.90 s", "2 min 5 s", "3 h 7 min"]);
        assert_eq!([ms(0.000_123), ms(0.0303), ms(0.303)], ["0.123 ms", "30.3 ms", "303 ms"]);
        assert_eq!(
            [percent(0.0), percent(0.83), percent(0.0123), percent(0.000_046)],
            ["0 %", "83 %", "1.2 %", "0.0046 %"]
        );
        assert_eq!([rate(941e6), bytes(1_073_741_824.0), count(7.0)], ["941 Mbit/s", "1.00 GiB", "7"]);
        assert_eq!(part_of(1.0, 0.0), NONE);
        for odd in [f64::NAN, f64::INFINITY, -1.0] {
            assert!([seconds, ms, moment, rate, bytes, percent, count].iter().all(|show| show(odd) == NONE), "{odd}");
        }
        for huge in [1e20, 1e300, f64::MAX] {
            assert!([seconds, ms, rate, bytes, percent, count].iter().all(|show| show(huge).len() < 40), "{huge}");
        }
    }
}
