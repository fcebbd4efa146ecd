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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_fall_with_distance_until_light_needs_regeneration() {
        let production = |km: f64| reach(km).map(|wavelength| wavelength.production_gbit_s);
        assert_eq!([4600.0, 4601.0, 9200.0, 9201.0].map(production), [Some(300.0), Some(200.0), Some(200.0), None]);
    }

    #[test]
    fn two_wavelengths_of_each_leg_are_a_terabit() {
        let leg = capacity(4600.0, 2).unwrap().value;
        let whole = capacity(9200.0, 2).unwrap().value;
        assert_eq!(leg + whole, 1000.0);
    }
}
