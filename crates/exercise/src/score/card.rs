//! ESnet's score cards as data (fasterdata.es.net, "Data Transfer Scorecard"): what a data transfer node should reach, by the speed of its
//! network interface. The same rate is given thrice, for three readers: as a volume in an hour, in bit/s, and in bytes per second.

use serde::Serialize;

/// 1 TB in an hour, bit/s: ESnet's least rate for a data transfer node of any speed.
pub const TERASCALE_BIT_S: f64 = 8e12 / 3_600.0;
/// 1 PB in a week, bit/s.
pub const PETASCALE_BIT_S: f64 = 8e15 / 604_800.0;

/// A card.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ScoreCard {
    /// Its name.
    pub name: &'static str,
    /// Its goal in words.
    pub goal: &'static str,
    /// Its columns, by speed.
    pub columns: &'static [CardColumn],
}

/// A column of a card: what a node with an interface of this speed should reach.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CardColumn {
    /// The speed of the interface, bit/s; 0 for a column that holds for every interface.
    pub nic_bit_s: f64,
    /// The name of the class.
    pub class: &'static str,
    /// The rate as a volume, bytes in an hour.
    pub bytes_per_hour: f64,
}

/// A grade. A better grade is less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Grade {
    /// The rate reaches the class of the interface.
    A,
    /// The rate is at least 1 TB an hour.
    Pass,
    /// The rate is below both.
    Fail,
}

const TB: f64 = 1e12;

impl ScoreCard {
    /// 1 TB in an hour, and multiples of it for faster interfaces. The page leaves the interface of its last column open; 1 Tbit/s is
    /// our reading, because the class is 2/9 of the interface's speed in each column from 10 Gbit/s on.
    pub const TERASCALE: ScoreCard = ScoreCard {
        name: "terascale",
        goal: "1 TB in an hour",
        columns: &[
            column(1e9, "1/3 terascale", TB / 3.0),
            column(10e9, "terascale", TB),
            column(40e9, "4 x terascale", 4.0 * TB),
            column(100e9, "10 x terascale", 10.0 * TB),
            column(400e9, "40 x terascale", 40.0 * TB),
            column(1e12, "100 x terascale", 100.0 * TB),
        ],
    };

    /// 1 PB in a week, by one node or by several together. The card's columns for single interfaces are not known to us.
    pub const PETASCALE: ScoreCard = ScoreCard {
        name: "petascale",
        goal: "1 PB in a week",
        columns: &[column(0.0, "petascale", PETASCALE_BIT_S / 8.0 * 3_600.0)],
    };

    /// The column of an interface: the fastest that is not faster than it. An interface that is slower than all columns belongs to the
    /// first of them.
    pub fn column(&self, nic_bit_s: f64) -> CardColumn {
        let mut reached = self.columns.iter().filter(|column| column.nic_bit_s <= nic_bit_s);
        *reached.next_back().unwrap_or(&self.columns[0])
    }

    /// The grade of a rate over an interface.
    pub fn grade(&self, rate_bit_s: f64, nic_bit_s: f64) -> Grade {
        if rate_bit_s >= self.column(nic_bit_s).network_bit_s() {
            Grade::A
        } else if rate_bit_s >= TERASCALE_BIT_S {
            Grade::Pass
        } else {
            Grade::Fail
        }
    }
}

impl CardColumn {
    /// The rate on the network, bit/s.
    pub fn network_bit_s(&self) -> f64 {
        self.bytes_per_hour * 8.0 / 3_600.0
    }

    /// The rate of the storage, bytes per second.
    pub fn storage_bytes_s(&self) -> f64 {
        self.bytes_per_hour / 3_600.0
    }
}

impl Grade {
    /// The word of the grade.
    pub fn word(self) -> &'static str {
        match self {
            Grade::A => "A",
            Grade::Pass => "pass",
            Grade::Fail => "fail",
        }
    }
}

const fn column(nic_bit_s: f64, class: &'static str, bytes_per_hour: f64) -> CardColumn {
    CardColumn { nic_bit_s, class, bytes_per_hour }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_terascale_card_has_the_published_numbers() {
        // Interface in Gbit/s, and as printed: volume in GB an hour, network in Mbit/s, storage in MB/s.
        let printed = [
            (1.0, 333.3, 740.7, 92.6),
            (10.0, 1e3, 2.2e3, 277.8),
            (40.0, 4e3, 8.9e3, 1.1e3),
            (100.0, 10e3, 22.2e3, 2.8e3),
            (400.0, 40e3, 88.9e3, 11.1e3),
            (1_000.0, 100e3, 222.2e3, 27.8e3),
        ];
        assert_eq!(ScoreCard::TERASCALE.columns.len(), printed.len());
        for (nic_gbit_s, volume_gb, network_mbit_s, storage_mb_s) in printed {
            let column = ScoreCard::TERASCALE.column(nic_gbit_s * 1e9);
            let near = |value: f64, printed: f64| (value / printed - 1.0).abs() < 0.013;
            assert!(near(column.bytes_per_hour / 1e9, volume_gb), "{column:?}");
            assert!(near(column.network_bit_s() / 1e6, network_mbit_s), "{column:?}");
            assert!(near(column.storage_bytes_s() / 1e6, storage_mb_s), "{column:?}");
        }
    }

    #[test]
    fn the_petascale_card_asks_for_a_petabyte_in_a_week() {
        let column = ScoreCard::PETASCALE.column(100e9);
        assert!((column.network_bit_s() / 1e9 - 13.23).abs() < 0.005, "{}", column.network_bit_s());
        assert!((column.storage_bytes_s() / 1e9 - 1.65).abs() < 0.005);
        assert_eq!(ScoreCard::PETASCALE.grade(13.3e9, 100e9), Grade::A);
        assert_eq!(ScoreCard::PETASCALE.grade(13.2e9, 100e9), Grade::Pass);
    }

    #[test]
    fn an_interface_has_the_column_that_it_is_fast_enough_for() {
        let class = |nic_bit_s| ScoreCard::TERASCALE.column(nic_bit_s).class;
        assert_eq!((class(25e9), class(200e9), class(800e9)), ("terascale", "10 x terascale", "40 x terascale"));
        assert_eq!((class(100e6), class(5e12)), ("1/3 terascale", "100 x terascale"));
    }

    #[test]
    fn a_grade_is_a_for_the_class_and_pass_for_a_terabyte_an_hour() {
        let grade = |rate_bit_s, nic_bit_s| ScoreCard::TERASCALE.grade(rate_bit_s, nic_bit_s);
        assert_eq!(grade(22.3e9, 100e9), Grade::A);
        assert_eq!(grade(22.2e9, 100e9), Grade::Pass);
        assert_eq!(grade(2.23e9, 100e9), Grade::Pass);
        assert_eq!(grade(2.22e9, 100e9), Grade::Fail);
        assert_eq!(grade(TERASCALE_BIT_S, 10e9), Grade::A);
        // An interface of 1 Gbit/s cannot pass; it can reach its own class.
        assert_eq!(grade(0.75e9, 1e9), Grade::A);
        assert_eq!(grade(0.74e9, 1e9), Grade::Fail);
        assert_eq!(grade(f64::NAN, 10e9), Grade::Fail);
    }

    proptest! {
        #[test]
        fn a_grade_never_improves_when_the_rate_falls(
            rate in 0.0..1e12f64,
            part in 0.0..1.0f64,
            nic in 1e8..2e12f64,
        ) {
            for card in [ScoreCard::TERASCALE, ScoreCard::PETASCALE] {
                prop_assert!(card.grade(rate * part, nic) >= card.grade(rate, nic));
            }
        }

        #[test]
        fn a_grade_never_improves_with_a_faster_interface(
            rate in 0.0..1e12f64,
            nic in 1e8..2e12f64,
            factor in 1.0..100.0f64,
        ) {
            let card = ScoreCard::TERASCALE;
            prop_assert!(card.grade(rate, nic * factor) >= card.grade(rate, nic));
        }
    }
}
