//! Axes: the position of a value, and the round numbers of the labels.

use std::fmt::Write as _;

/// One axis, from 0.
#[derive(Clone, Debug, PartialEq)]
pub struct Scale {
    most: f64,
    step: f64,
    /// The unit of the numbers beside the axis.
    unit: f64,
    name: String,
}

/// The most numbers beside an axis.
const TICKS: f64 = 6.0;

/// The least of 1, 2 and 5 times a power of ten that is not below the value.
fn round_up(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    let round = [1.0, 2.0, 5.0, 10.0].map(|times| times * power);
    // A value within a rounding error of a round number counts as that number.
    round.into_iter().find(|round| *round >= value * (1.0 - 1e-9)).unwrap_or(value)
}

impl Scale {
    fn new(most: f64, unit: f64, name: &str) -> Scale {
        let most = if most.is_finite() && most > 0.0 { most } else { unit };
        Scale { most, step: round_up(most / unit / TICKS) * unit, unit, name: name.to_owned() }
    }

    /// Ends the axis at a round number.
    fn rounded(self) -> Scale {
        Scale { most: (self.most / self.step * (1.0 - 1e-9)).ceil().max(1.0) * self.step, ..self }
    }

    /// An axis of seconds, which ends with the data.
    pub fn seconds(most: f64) -> Scale {
        let (unit, name) = match most {
            most if most >= 172_800.0 => (86_400.0, "days"),
            most if most >= 7_200.0 => (3_600.0, "hours"),
            most if most >= 120.0 => (60.0, "minutes"),
            _ => (1.0, "seconds"),
        };
        Scale::new(most, unit, name)
    }

    /// An axis of bits per second.
    pub fn rate(most: f64) -> Scale {
        let units = [(1e12, "Tbit/s"), (1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")];
        let (unit, name) = units.into_iter().find(|(unit, _)| most >= *unit).unwrap_or((1.0, "bit/s"));
        Scale::new(most, unit, name).rounded()
    }

    /// An axis of shares, of which 1 is all, in per cent.
    pub fn share() -> Scale {
        Scale { most: 1.0, step: 0.25, unit: 0.01, name: "%".into() }
    }

    /// An axis of anything else.
    pub fn plain(most: f64, name: &str) -> Scale {
        Scale::new(most, 1.0, name).rounded()
    }

    /// The quantity of the axis.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The position of a value, from 0 to 1; larger values are at the end.
    pub fn place(&self, value: f64) -> f64 {
        let place = value / self.most;
        if place.is_nan() { 0.0 } else { place.clamp(0.0, 1.0) }
    }

    /// Round numbers, with their labels.
    pub fn ticks(&self) -> Vec<(f64, String)> {
        let digits = (-(self.step / self.unit).log10().floor()).clamp(0.0, 9.0) as usize;
        let many = (self.most / self.step * (1.0 + 1e-9)).floor().min(4.0 * TICKS) as u32;
        let tick = |at: u32| {
            let value = f64::from(at) * self.step;
            let mut text = String::new();
            let _ = write!(text, "{:.digits$}", value / self.unit);
            (value, text)
        };
        (0..=many).map(tick).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(scale: &Scale) -> String {
        let ticks: Vec<String> = scale.ticks().into_iter().map(|(_, text)| text).collect();
        format!("{} {}", ticks.join(" "), scale.name())
    }

    #[test]
    fn numbers_are_round() {
        assert_eq!(written(&Scale::seconds(8.9)), "0 2 4 6 8 seconds");
        assert_eq!(written(&Scale::seconds(0.3)), "0.00 0.05 0.10 0.15 0.20 0.25 0.30 seconds");
        assert_eq!(written(&Scale::seconds(600.0)), "0 2 4 6 8 10 minutes");
        assert_eq!(written(&Scale::seconds(86_400.0)), "0 5 10 15 20 hours");
        assert_eq!(written(&Scale::rate(941e6)), "0 200 400 600 800 1000 Mbit/s");
        assert_eq!(written(&Scale::rate(1.2e9)), "0.0 0.2 0.4 0.6 0.8 1.0 1.2 Gbit/s");
        assert_eq!(written(&Scale::share()), "0 25 50 75 100 %");
        assert_eq!(written(&Scale::plain(1.0, "packets")), "0.0 0.2 0.4 0.6 0.8 1.0 packets");
    }

    #[test]
    fn every_value_has_a_position_on_the_axis() {
        for most in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-300, 1e300, 7.0] {
            for scale in [Scale::seconds(most), Scale::rate(most), Scale::plain(most, "")] {
                assert!(scale.ticks().len() <= 25, "{scale:?}");
                for value in [f64::NAN, f64::NEG_INFINITY, -1.0, 0.0, 1.0, most, f64::INFINITY] {
                    assert!((0.0..=1.0).contains(&scale.place(value)), "{value} on {scale:?}");
                }
            }
        }
    }
}
