//! What the watch has measured between sites. The hub knows it only if the watch runs in the same process.

use std::collections::BTreeMap;
use std::sync::Arc;

use plan::catalogue::Measured;

/// A measured path between two sites, in one direction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MeasuredPath {
    /// The site that sends.
    pub from: String,
    /// The site that receives.
    pub to: String,
    /// The smallest round-trip time, seconds.
    pub rtt_s: Option<f64>,
    /// The share of packets that are lost.
    pub loss: Option<f64>,
    /// The rate of the last throughput test, bit/s.
    pub rate_bit_s: Option<f64>,
}

/// Answers with all paths that are measured now.
pub type Measurements = Arc<dyn Fn() -> Vec<MeasuredPath> + Send + Sync>;

/// Measured paths by their two sites.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MeasuredPaths {
    paths: BTreeMap<(String, String), MeasuredPath>,
}

impl MeasuredPaths {
    /// The measured path between two sites; none if nothing measures it.
    pub fn between(&self, from: &str, to: &str) -> Option<&MeasuredPath> {
        self.paths.get(&(from.to_owned(), to.to_owned()))
    }

    /// What was measured at a site: the best rate of any test from it or to it. Tests of the watch do not touch disks.
    pub fn at_site(&self, site: &str) -> Measured {
        let of_site = self.paths.values().filter(|path| path.from == site || path.to == site);
        let best = of_site.filter_map(|path| path.rate_bit_s).reduce(f64::max);
        Measured { link_gbit_s: best.map(|rate| rate / 1e9), disk_write_gbit_s: None }
    }
}

impl FromIterator<MeasuredPath> for MeasuredPaths {
    /// Joins the paths between the same two sites: the shortest time and the best rate, but the greatest loss.
    fn from_iter<I: IntoIterator<Item = MeasuredPath>>(measured: I) -> MeasuredPaths {
        let mut paths: BTreeMap<(String, String), MeasuredPath> = BTreeMap::new();
        for path in measured {
            let joined = paths.entry((path.from.clone(), path.to.clone())).or_insert_with(|| path.clone());
            joined.rtt_s = joined.rtt_s.into_iter().chain(path.rtt_s).reduce(f64::min);
            joined.loss = joined.loss.into_iter().chain(path.loss).reduce(f64::max);
            joined.rate_bit_s = joined.rate_bit_s.into_iter().chain(path.rate_bit_s).reduce(f64::max);
        }
        MeasuredPaths { paths }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(rtt_s: f64, loss: f64, rate_bit_s: Option<f64>) -> MeasuredPath {
        MeasuredPath { from: "a".into(), to: "b".into(), rtt_s: Some(rtt_s), loss: Some(loss), rate_bit_s }
    }

    #[test]
    fn paths_between_the_same_sites_are_joined() {
        let paths: MeasuredPaths = [measured(0.2, 0.0, Some(3e9)), measured(0.1, 0.01, None)].into_iter().collect();
        assert_eq!(paths.between("a", "b"), Some(&measured(0.1, 0.01, Some(3e9))));
        assert_eq!(paths.between("b", "a"), None, "a direction says nothing of the other one");
        assert_eq!(paths.at_site("b").link_gbit_s, Some(3.0));
        assert_eq!(paths.at_site("c").link_gbit_s, None);
    }
}
