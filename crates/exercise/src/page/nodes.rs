//! The nodes of a phase over its time: memory, descriptors, load, and whether any of them grows.

use std::collections::BTreeMap;

use model::units::Bytes;
use report::html::Table;

use crate::record::{NodeSample, PhaseRecord};

/// The part of a phase in which caches and pools fill.
const WARM_UP: f64 = 0.1;

/// What the nodes had; empty if no node was sampled.
pub(super) fn table(phase: &PhaseRecord) -> String {
    let mut by_site: BTreeMap<&str, Vec<&NodeSample>> = BTreeMap::new();
    for sample in &phase.nodes {
        by_site.entry(&sample.site).or_default().push(sample);
    }
    if by_site.is_empty() {
        return String::new();
    }
    let heads = [
        "node",
        "transfers at most",
        "waiting at most",
        "load, mean",
        "memory at most",
        "memory grows",
        "descriptors at most",
        "descriptors grow",
    ];
    let about = "Growth is the slope of a straight line after the first tenth of the phase; memory and descriptors are known in a lab only";
    let mut table = Table::new("numbers", about, &heads);
    for (site, samples) in by_site {
        let most = |of: fn(&NodeSample) -> u64| samples.iter().map(|sample| of(sample)).max().unwrap_or(0).to_string();
        let memory = Trend::of(&samples, phase.seconds, |sample| sample.resident_bytes);
        let descriptors = Trend::of(&samples, phase.seconds, |sample| sample.descriptors);
        let load = samples.iter().map(|sample| sample.load).sum::<f64>() / samples.len() as f64;
        table.row(&[
            site.to_owned(),
            most(|sample| sample.running),
            most(|sample| sample.queued),
            format!("{load:.2}"),
            memory.most.map_or_else(|| "-".to_owned(), |most| Bytes(most as u64).to_string()),
            memory
                .slope_per_hour
                .map_or_else(|| "-".to_owned(), |slope| format!("{:+.1} MiB an hour", slope / 1_048_576.0)),
            descriptors.most.map_or_else(|| "-".to_owned(), |most| format!("{most:.0}")),
            descriptors.slope_per_hour.map_or_else(|| "-".to_owned(), |slope| format!("{slope:+.1} an hour")),
        ]);
    }
    table.end()
}

/// What a value did over a phase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trend {
    /// Its highest value.
    pub most: Option<f64>,
    /// Its growth in an hour after the warm-up; none with fewer than three samples there.
    pub slope_per_hour: Option<f64>,
}

impl Trend {
    /// What the samples of a node did in a phase of this length.
    pub fn of(samples: &[&NodeSample], seconds: f64, value: fn(&NodeSample) -> Option<u64>) -> Trend {
        let points: Vec<(f64, f64)> =
            samples.iter().filter_map(|sample| Some((sample.at_s, value(sample)? as f64))).collect();
        let warm: Vec<(f64, f64)> = points.iter().copied().filter(|(at_s, _)| *at_s >= seconds * WARM_UP).collect();
        Trend {
            most: points.iter().map(|(_, value)| *value).reduce(f64::max),
            slope_per_hour: (warm.len() >= 3).then(|| slope(&warm) * 3600.0),
        }
    }
}

/// The slope of the line of least squares.
pub fn slope(points: &[(f64, f64)]) -> f64 {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (mean_x, mean_y) = (mean(|point| point.0), mean(|point| point.1));
    let covariance: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let variance: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    if variance > 0.0 { covariance / variance } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(memory: impl Fn(f64) -> f64) -> Vec<NodeSample> {
        let sample = |at: u32| {
            let at_s = f64::from(at) * 10.0;
            NodeSample { site: "a".into(), at_s, resident_bytes: Some(memory(at_s) as u64), ..NodeSample::default() }
        };
        (0..100).map(sample).collect()
    }

    #[test]
    fn memory_that_grows_has_a_slope_and_a_warm_up_has_none() {
        let grows = samples(|at_s| 1e8 + 1e4 * at_s);
        let series = Trend::of(&grows.iter().collect::<Vec<_>>(), 1000.0, |sample| sample.resident_bytes);
        assert!((series.slope_per_hour.unwrap() - 3.6e7).abs() < 1e3, "{series:?}");
        let warms_up = samples(|at_s| 1e8 + 1e6 * at_s.min(90.0));
        let series = Trend::of(&warms_up.iter().collect::<Vec<_>>(), 1000.0, |sample| sample.resident_bytes);
        assert!(series.slope_per_hour.unwrap().abs() < 1e6 && series.most == Some(1.9e8), "{series:?}");
    }

    #[test]
    fn what_is_not_known_is_not_in_the_table() {
        let sample = NodeSample { site: "a".into(), ..NodeSample::default() };
        let text = table(&PhaseRecord { nodes: vec![sample], ..PhaseRecord::default() });
        assert!(text.contains("<td>-</td>") && !text.contains("MiB"), "{text}");
        assert_eq!(table(&PhaseRecord::default()), "");
    }
}
