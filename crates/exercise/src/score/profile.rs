//! The rates of others, to compare with.

use std::borrow::Cow;

use serde::Serialize;

use super::card::ScoreCard;

/// Rates that somebody has reached, or that are asked for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReferenceProfile {
    /// Its name.
    pub name: Cow<'static, str>,
    /// Whose rates these are, in words.
    pub source: Cow<'static, str>,
    /// The rates.
    pub rates: ReferenceRates,
}

/// The rates of a profile, bit/s.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReferenceRates {
    /// One rate for any data.
    AnyData(f64),
    /// A rate for each data set, by its name.
    ByDataSet(Cow<'static, [(Cow<'static, str>, f64)]>),
}

/// EPOC's log gives rates in units of 1,048,576 bytes per second, though its header says MB/s: its program divides by 1024 * 1024, and rate times time is
/// a round number of decimal gigabytes only then.
const MIB_S_IN_BIT_S: f64 = 1_048_576.0 * 8.0;

const SANREN: &str = "SANReN, data mobility exhibition, interfaces of 100 Gbit/s";

impl ReferenceProfile {
    /// All shipped profiles: ESnet's classes by interface, EPOC's log, SANReN's rows.
    pub fn all() -> Vec<ReferenceProfile> {
        let classes = [1u32, 10, 40, 100, 400].map(ReferenceProfile::esnet_class);
        let mut all = Vec::from(classes);
        all.push(ReferenceProfile::epoc_log());
        all.extend(ReferenceProfile::sanren());
        all
    }

    /// The profile of a name; none if there is no such profile.
    pub fn of_name(name: &str) -> Option<ReferenceProfile> {
        ReferenceProfile::all().into_iter().find(|profile| profile.name == name)
    }

    /// The rate for a data set, bit/s; none if the profile does not have it.
    pub fn rate_bit_s(&self, data_set: &str) -> Option<f64> {
        match &self.rates {
            ReferenceRates::AnyData(rate) => Some(*rate),
            ReferenceRates::ByDataSet(rates) => rates.iter().find(|(name, _)| name == data_set).map(|(_, rate)| *rate),
        }
    }

    /// The class of ESnet's card for an interface.
    fn esnet_class(nic_gbit_s: u32) -> ReferenceProfile {
        let column = ScoreCard::TERASCALE.column(f64::from(nic_gbit_s) * 1e9);
        ReferenceProfile {
            name: format!("esnet-{nic_gbit_s}g").into(),
            source: format!("ESnet's card: {} for {nic_gbit_s} Gbit/s", column.class).into(),
            rates: ReferenceRates::AnyData(column.network_bit_s()),
        }
    }

    /// The log of a campus with interfaces of 10 Gbit/s that fetched EPOC's eight sets on 7 December 2020, by Globus with checksums
    /// (mmoo97/DTN_tests, 12-07-2020_13h03m59s.csv).
    fn epoc_log() -> ReferenceProfile {
        let mib_s = [
            ("ds01", 6.2),
            ("ds04", 435.8),
            ("ds06", 541.78),
            ("ds08", 623.74),
            ("ds10", 653.56),
            ("ds12", 354.59),
            ("ds14", 651.76),
            ("ds16", 646.54),
        ];
        let rates = mib_s.map(|(name, mib_s)| (Cow::Borrowed(name), mib_s * MIB_S_IN_BIT_S));
        ReferenceProfile {
            name: "epoc-log-2020".into(),
            source: "a campus with 10 Gbit/s, by Globus with checksums, 12/2020".into(),
            rates: ReferenceRates::ByDataSet(Vec::from(rates).into()),
        }
    }

    /// 1 TB from NCAR (Colorado) to two nodes in South Africa, in 209 s and in 182 s; and between two nodes in South Africa, in 900 s at
    /// best and 1,560 s at worst.
    fn sanren() -> [ReferenceProfile; 4] {
        [("cape-town", 209.0), ("johannesburg", 182.0), ("chpc-best", 900.0), ("chpc-worst", 1_560.0)].map(
            |(target, seconds)| ReferenceProfile {
                name: format!("sanren-{target}").into(),
                source: SANREN.into(),
                rates: ReferenceRates::AnyData(8e12 / seconds),
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::Grade;
    use super::*;
    use crate::data_set::DataSet;

    fn profile(name: &str) -> ReferenceProfile {
        ReferenceProfile::of_name(name).unwrap()
    }

    /// SANReN's rows (1 TB in 209 s and in 182 s, printed as 4.78 and 5.48 GB/s) are 1.7 to 2.0 times the class of 100 Gbit/s.
    #[test]
    fn the_rows_of_sanren_are_nearly_twice_the_class_of_their_interface() {
        let class = ScoreCard::TERASCALE.column(100e9).network_bit_s();
        for (name, gb_s, times) in [("sanren-cape-town", 4.78, 1.72), ("sanren-johannesburg", 5.48, 1.98)] {
            let rate = profile(name).rate_bit_s("any").unwrap();
            assert!((rate / 8e9 - gb_s).abs() < 0.02, "{name}: {rate}");
            assert!((rate / class - times).abs() < 0.005, "{name}: {}", rate / class);
            assert!((1.7..=2.0).contains(&(rate / class)));
            assert_eq!(ScoreCard::TERASCALE.grade(rate, 100e9), Grade::A, "{name}");
        }
        for name in ["sanren-chpc-best", "sanren-chpc-worst"] {
            let rate = profile(name).rate_bit_s("any").unwrap();
            assert_eq!(ScoreCard::TERASCALE.grade(rate, 100e9), Grade::Pass, "{name}");
        }
    }

    #[test]
    fn the_log_of_epoc_has_a_rate_for_each_of_the_eight_sets() {
        let log = profile("epoc-log-2020");
        let sets: Vec<DataSet> = DataSet::ALL.into_iter().filter(|set| set.name().starts_with("ds")).collect();
        assert_eq!(sets.len(), 8);
        assert!(sets.iter().all(|set| log.rate_bit_s(set.name()).is_some()));
        assert_eq!(log.rate_bit_s("5GB-in-small-files"), None);
        // Small files are 70 times and more slower than large ones.
        assert!(log.rate_bit_s("ds01").unwrap() * 70.0 < log.rate_bit_s("ds04").unwrap() * 1.01);
    }

    /// The log has the begin and the end of each transfer, to the second.
    #[test]
    fn rates_of_the_log_times_its_times_are_the_totals_of_the_sets() {
        let log = profile("epoc-log-2020");
        let seconds = [
            ("ds06", 176.0),
            ("ds08", 1_572.0),
            ("ds10", 1_459.0),
            ("ds12", 269.0),
            ("ds14", 7_317.0),
            ("ds16", 1_475.0),
        ];
        for (name, seconds) in seconds {
            let total = DataSet::of_name(name).unwrap().bytes(1.0) as f64;
            let moved = log.rate_bit_s(name).unwrap() * seconds / 8.0;
            assert!((moved / total - 1.0).abs() < 0.03, "{name}: {moved}");
        }
    }

    #[test]
    fn a_class_is_a_reference_for_any_data() {
        assert!((profile("esnet-100g").rate_bit_s("x").unwrap() - 22.222e9).abs() < 1e6);
        assert!((profile("esnet-1g").rate_bit_s("x").unwrap() - 740.74e6).abs() < 1e4);
        let all = ReferenceProfile::all();
        let names: BTreeSet<&str> = all.iter().map(|profile| profile.name.as_ref()).collect();
        assert_eq!(names.len(), all.len());
    }
}
