//! Optical reach: the capacity of a wavelength over a distance without regeneration.
//!
//! Does not know: amplifiers, fibre types, or wavelengths of others. The table is what one operator measured and runs on a submarine system; other systems differ.

use model::figure::Figure;

/// What one wavelength carries over a distance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wavelength {
    /// The distance, km.
    pub distance_km: f64,
    /// The highest rate that worked in trials, Gbit/s.
    pub best_gbit_s: f64,
    /// The width of the channel at that rate, GHz.
    pub best_width_ghz: f64,
    /// The rate in production, Gbit/s.
    pub production_gbit_s: f64,
    /// The width of the channel in production, GHz.
    pub production_width_ghz: f64,
}

/// Measured on Indigo (Sydney, Perth, Singapore), by distance.
pub const INDIGO: [Wavelength; 2] = [
    Wavelength {
        distance_km: 4600.0,
        best_gbit_s: 400.0,
        best_width_ghz: 87.5,
        production_gbit_s: 300.0,
        production_width_ghz: 75.0,
    },
    Wavelength {
        distance_km: 9200.0,
        best_gbit_s: 300.0,
        best_width_ghz: 87.5,
        production_gbit_s: 200.0,
        production_width_ghz: 75.0,
    },
];

/// The wavelength that the table has for a distance: that of the next longer distance. None if a distance is longer than all: the
/// light needs regeneration.
pub fn reach(distance_km: f64) -> Option<&'static Wavelength> {
    INDIGO.iter().find(|wavelength| distance_km <= wavelength.distance_km)
}

/// The production capacity of a number of wavelengths over a distance; none beyond the reach of the table.
pub fn capacity(distance_km: f64, wavelengths: u32) -> Option<Figure> {
    let wavelength = reach(distance_km)?;
    Some(
        Figure::new(
            format!("{wavelengths} wavelengths over {distance_km} km"),
            wavelength.production_gbit_s * f64::from(wavelengths),
            "Gbit/s",
        )
        .formula("wavelengths * rate")
        .with("wavelengths", f64::from(wavelengths), "")
        .with("rate", wavelength.production_gbit_s, "Gbit/s")
        .source("production rates on Indigo; width of a channel 75 GHz"),
    )
}

/// A kind of wavelength on a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WavelengthChoice {
    /// The rate of one, Gbit/s.
    pub gbit_s: f64,
    /// The width of its channel, GHz.
    pub width_ghz: f64,
    /// How far it gets without regeneration, km.
    pub reach_km: f64,
    /// Whether it runs in production, and not only in trials.
    pub in_production: bool,
    /// The regenerators that one needs on the link.
    pub regenerators: u32,
}

impl WavelengthChoice {
    /// Its rate for each hertz of the channel, which stands for its modulation.
    pub fn bit_s_hz(&self) -> f64 {
        self.gbit_s / self.width_ghz
    }

    /// How many of them carry a rate.
    pub fn count(&self, gbit_s: f64) -> u32 {
        (gbit_s / self.gbit_s * (1.0 - 1e-9)).ceil().max(1.0) as u32
    }
}

/// The kinds of wavelengths for a distance: those in production before those of trials, then by the least regeneration, then by the highest rate.
pub fn choices(distance_km: f64) -> Vec<WavelengthChoice> {
    let of = |wavelength: &Wavelength, in_production: bool| {
        let (gbit_s, width_ghz) = match in_production {
            true => (wavelength.production_gbit_s, wavelength.production_width_ghz),
            false => (wavelength.best_gbit_s, wavelength.best_width_ghz),
        };
        let spans = (distance_km / wavelength.distance_km * (1.0 - 1e-9)).ceil().max(1.0);
        let regenerators = spans as u32 - 1;
        WavelengthChoice { gbit_s, width_ghz, reach_km: wavelength.distance_km, in_production, regenerators }
    };
    let mut all: Vec<WavelengthChoice> = INDIGO.iter().flat_map(|row| [of(row, true), of(row, false)]).collect();
    let order = |choice: &WavelengthChoice| (!choice.in_production, choice.regenerators);
    all.sort_by(|a, b| order(a).cmp(&order(b)).then_with(|| b.gbit_s.total_cmp(&a.gbit_s)));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_fall_with_distance_until_light_needs_regeneration() {
        let production = |km: f64| reach(km).map(|wavelength| wavelength.production_gbit_s);
        assert_eq!([4600.0, 4601.0, 9200.0, 9201.0].map(production), [Some(300.0), Some(200.0), Some(200.0), None]);
    }

    #[test]
    fn a_longer_link_is_regenerated_or_takes_a_coarser_modulation() {
        let in_production = |km: f64| {
            let choices = choices(km).into_iter().filter(|choice| choice.in_production);
            choices.map(|choice| (choice.gbit_s, choice.regenerators)).collect::<Vec<_>>()
        };
        assert_eq!(in_production(4600.0), [(300.0, 0), (200.0, 0)], "Sydney to Perth, and Perth to Singapore");
        assert_eq!(
            in_production(9200.0),
            [(200.0, 0), (300.0, 1)],
            "Sydney to Singapore: past Perth, or regenerated there"
        );
        assert_eq!(in_production(14_500.0), [(200.0, 1), (300.0, 3)]);
    }

    #[test]
    fn the_modulations_of_the_table_carry_4_57_4_00_3_43_and_2_67_bit_s_hz() {
        let mut found: Vec<f64> =
            choices(1.0).iter().map(|choice| (choice.bit_s_hz() * 100.0).round() / 100.0).collect();
        found.sort_by(|a, b| b.total_cmp(a));
        assert_eq!(found, [4.57, 4.0, 3.43, 2.67]);
        assert_eq!([300.0, 301.0, 1000.0].map(|rate| choices(4600.0)[0].count(rate)), [1, 2, 4]);
    }

    #[test]
    fn two_wavelengths_of_each_leg_are_a_terabit() {
        let leg = capacity(4600.0, 2).unwrap().value;
        let whole = capacity(9200.0, 2).unwrap().value;
        assert_eq!(leg + whole, 1000.0);
    }
}
