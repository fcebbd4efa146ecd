//! Bounds of `--warn` and `--crit`, within which a measured quantity must be.

use std::fmt;
use std::str::FromStr;

use model::units::BitRate;

/// The quantity that a bound limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Bits per second.
    Rate,
    /// Share of packets or bytes, from 0 to 1.
    Loss,
    /// Median round trip, seconds.
    Rtt,
    /// 95th percentile of the difference in delay of consecutive packets, in the direction where it is larger, seconds.
    Variation,
    /// Share of datagrams that arrived out of order.
    Reordered,
    /// Share of datagrams that arrived more than once.
    Duplicates,
    /// The number of causes that were found.
    Causes,
}

const NAMES: [(&str, Measure); 7] = [
    ("rate", Measure::Rate),
    ("loss", Measure::Loss),
    ("rtt", Measure::Rtt),
    ("variation", Measure::Variation),
    ("reordered", Measure::Reordered),
    ("duplicates", Measure::Duplicates),
    ("causes", Measure::Causes),
];

impl Measure {
    /// Its name in a bound.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(_, measure)| *measure == self).map_or("", |(name, _)| name)
    }

    /// A value with its unit.
    pub fn show(self, value: f64) -> String {
        match self {
            Measure::Rate => BitRate(value as u64).to_string(),
            Measure::Loss | Measure::Reordered | Measure::Duplicates => format!("{:.4} %", value * 100.0),
            Measure::Rtt | Measure::Variation => format!("{:.2} ms", value * 1e3),
            Measure::Causes => format!("{value:.0}"),
        }
    }

    /// Parses a value with its unit.
    fn read(self, text: &str) -> Option<f64> {
        let value = match self {
            Measure::Rate => text.parse::<BitRate>().ok()?.0 as f64,
            Measure::Rtt | Measure::Variation => model::duration::parse(text).ok()?.as_secs_f64(),
            Measure::Causes => text.parse().ok()?,
            _ => text.strip_suffix('%')?.trim().parse::<f64>().ok()? / 100.0,
        };
        (value.is_finite() && value >= 0.0).then_some(value)
    }
}

/// An upper or lower bound of a measured quantity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    /// The quantity that is bounded.
    pub measure: Measure,
    at_least: bool,
    value: f64,
}

impl Bound {
    /// Whether a value is within the bound.
    pub fn holds(&self, value: f64) -> bool {
        if self.at_least { value >= self.value } else { value <= self.value }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.at_least { ">=" } else { "<=" };
        write!(f, "{}{sign}{}", self.measure.name(), self.measure.show(self.value))
    }
}

impl FromStr for Bound {
    type Err = String;

    fn from_str(text: &str) -> Result<Bound, String> {
        let wrong = || {
            let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
            let examples = "rate>=900Mbit/s, loss<=0.1%, rtt<=310ms";
            format!("{text} is not a bound; write it like {examples}; the quantities are: {}", names.join(", "))
        };
        let cut = |sign: &str| text.split_once(sign).map(|(name, value)| (name.trim(), value.trim()));
        let (at_least, (name, value)) =
            cut(">=").map(|cut| (true, cut)).or_else(|| cut("<=").map(|cut| (false, cut))).ok_or_else(wrong)?;
        let (_, measure) = NAMES.iter().find(|(known, _)| *known == name).ok_or_else(wrong)?;
        Ok(Bound { measure: *measure, at_least, value: measure.read(value).ok_or_else(wrong)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_read_with_their_units() {
        let bound = |text: &str| text.parse::<Bound>().unwrap();
        assert!(bound("rate>=900Mbit/s").holds(9e8) && !bound("rate >= 900Mbit/s").holds(8.9e8));
        assert!(bound("loss<=0.1%").holds(0.001) && !bound("loss<=0.1%").holds(0.002));
        assert!(bound("rtt<=310ms").holds(0.31) && bound("causes<=0").holds(0.0));
        assert_eq!(bound("loss<=0.1%").to_string(), "loss<=0.1000 %");
        for wrong in
            ["", "rate", "rate>900Mbit/s", "speed>=1Mbit/s", "loss<=0.1", "rtt<=fast", "loss<=-1%", "loss<=NaN%"]
        {
            assert!(wrong.parse::<Bound>().unwrap_err().contains("loss<=0.1%"), "{wrong}");
        }
    }
}
