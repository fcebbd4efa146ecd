//! Compares media for an archive (tape, disk), and the transport of data on disks by courier with that over a network.
//!
//! Does not know: drives, power, people. The prices are of media alone.

use model::figure::Figure;
use model::laws::freight;
use model::money::Money;

/// The price of media for a volume.
pub fn media(name: &str, terabytes: f64, price_per_tb: Money) -> Figure {
    Figure::new(name, terabytes * price_per_tb.amount, price_per_tb.currency.code())
        .formula("volume * price")
        .with("volume", terabytes, "TB")
        .with("price", price_per_tb.amount, format!("{} per TB", price_per_tb.currency))
}

/// The rate at which a library reads with so many drives.
pub fn recall_rate(drives: f64, minutes_per_tb: f64) -> Figure {
    Figure::new("recall from tape", drives * 8e3 / (minutes_per_tb * 60.0), "Gbit/s")
        .formula("drives * 8000 / (time * 60)")
        .with("drives", drives, "")
        .with("time", minutes_per_tb, "minutes per TB")
}

/// The time that a courier takes: copying to disks, the journey, copying from them.
pub fn courier(terabytes: f64, journey_hours: f64, copy_gbit_s: f64) -> Figure {
    let seconds = freight::courier_s(terabytes * 1e12, journey_hours * 3600.0, copy_gbit_s * 1e9);
    Figure::new(format!("{terabytes} TB by courier"), seconds / 3600.0, "h")
        .formula("journey + 2 * volume * 8000 / (copy * 3600)")
        .with("volume", terabytes, "TB")
        .with("journey", journey_hours, "h")
        .with("copy", copy_gbit_s, "Gbit/s")
}

/// The time that a network takes.
pub fn network(terabytes: f64, rate_gbit_s: f64) -> Figure {
    Figure::new(format!("{terabytes} TB by network"), terabytes * 8e3 / rate_gbit_s / 3600.0, "h")
        .formula("volume * 8000 / (rate * 3600)")
        .with("volume", terabytes, "TB")
        .with("rate", rate_gbit_s, "Gbit/s")
}

/// The volume from which on a courier is faster than a network; none if it never is.
pub fn break_even(journey_hours: f64, copy_gbit_s: f64, rate_gbit_s: f64) -> Option<Figure> {
    // A terabyte costs the courier two copies, and the network one passage.
    let saved_hours_per_tb = 8e3 / 3600.0 * (1.0 / rate_gbit_s - 2.0 / copy_gbit_s);
    if saved_hours_per_tb <= 0.0 {
        return None;
    }
    Some(
        Figure::new("volume from which a courier is faster", journey_hours / saved_hours_per_tb, "TB")
            .formula("journey / (8000 * (1 / rate - 2 / copy) / 3600)")
            .with("journey", journey_hours, "h")
            .with("rate", rate_gbit_s, "Gbit/s")
            .with("copy", copy_gbit_s, "Gbit/s"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thirty_two_drives_recall_71_gbit_s_today_and_213_in_ten_years() {
        assert!((recall_rate(32.0, 60.0).value - 71.1).abs() < 0.1);
        assert!((recall_rate(32.0, 20.0).value - 213.3).abs() < 0.1);
    }

    #[test]
    fn courier_and_network_take_the_same_time_at_the_break_even_volume() {
        let volume = break_even(48.0, 20.0, 1.0).unwrap().value;
        assert!((courier(volume, 48.0, 20.0).value - network(volume, 1.0).value).abs() < 1e-9);
        assert_eq!(break_even(48.0, 20.0, 10.0), None, "two copies at 20 take as long as one passage at 10");
    }
}
