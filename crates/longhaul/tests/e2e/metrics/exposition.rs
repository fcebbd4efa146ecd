//! A parser of OpenMetrics text, as strict as Prometheus.

use std::collections::{BTreeMap, BTreeSet};

use crate::node::Node;
use crate::web::raw::Raw;

/// The metrics of a node.
#[derive(Clone, Debug, Default)]
pub struct Numbers {
    /// Values by series: the name with its labels, as written.
    samples: BTreeMap<String, f64>,
    /// `HELP` and `TYPE` of each family.
    pub families: BTreeMap<String, (String, String)>,
}

/// The name of a series, and its labels with their values.
pub fn parts(series: &str) -> (&str, BTreeMap<&str, &str>) {
    let Some((name, labels)) = series.split_once('{') else { return (series, BTreeMap::new()) };
    let labels = labels.strip_suffix('}').unwrap_or_else(|| panic!("{series}"));
    // No value contains a quote.
    let pairs = labels.split("\",").map(|pair| {
        let (label, value) = pair.split_once("=\"").unwrap_or_else(|| panic!("{series}"));
        (label, value.trim_end_matches('"'))
    });
    (name, pairs.collect())
}

impl Numbers {
    /// Parses a text.
    pub fn parse(text: &str) -> Numbers {
        let mut all = Numbers::default();
        let body = text.strip_suffix("# EOF\n").unwrap_or_else(|| panic!("no end: {text}"));
        for line in body.lines() {
            let words: Vec<&str> = line.splitn(4, ' ').collect();
            match words.as_slice() {
                ["#", "HELP", family, help] => {
                    let before = all.families.insert((*family).into(), ((*help).into(), String::new()));
                    assert!(before.is_none(), "{family} is described twice");
                }
                ["#", "TYPE", family, kind] => all.families.get_mut(*family).unwrap().1 = (*kind).into(),
                ["#", "UNIT", family, unit] => assert!(family.ends_with(&format!("_{unit}")), "{line}"),
                _ => {
                    let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
                    let before = all.samples.insert(series.into(), value.parse().unwrap());
                    assert!(before.is_none(), "{series} is there twice");
                }
            }
        }
        all
    }

    /// The value of a series.
    pub fn get(&self, series: &str) -> Option<f64> {
        self.samples.get(series).copied()
    }

    /// The value of a series that must exist.
    #[track_caller]
    pub fn of(&self, series: &str) -> f64 {
        self.get(series).unwrap_or_else(|| panic!("there is no {series} in {:#?}", self.samples.keys()))
    }

    /// All series.
    pub fn series(&self) -> impl Iterator<Item = &str> {
        self.samples.keys().map(String::as_str)
    }

    /// Every name, with its labels and the values that they have.
    pub fn names(&self) -> BTreeMap<&str, BTreeMap<&str, BTreeSet<&str>>> {
        let mut names: BTreeMap<&str, BTreeMap<&str, BTreeSet<&str>>> = BTreeMap::new();
        for series in self.series() {
            let (name, labels) = parts(series);
            let known = names.entry(name).or_default();
            for (label, value) in labels {
                known.entry(label).or_default().insert(value);
            }
        }
        names
    }

    /// Asserts that counters only grew.
    #[track_caller]
    pub fn assert_not_below(&self, before: &Numbers) {
        for series in before.series().filter(|series| parts(series).0.ends_with("_total")) {
            assert!(self.of(series) >= before.of(series), "{series}: {} after {}", self.of(series), before.of(series));
        }
    }
}

/// Reads the metrics of a node from its own host.
pub fn read(node: &Node) -> Numbers {
    let answer = Raw::sealed(node).ask("GET", "/metrics", &[], &[]).expect(200);
    assert_eq!(answer.field("content-type"), Some("application/openmetrics-text; version=1.0.0; charset=utf-8"));
    Numbers::parse(&answer.text())
}
