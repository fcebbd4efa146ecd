//! What all sites together say.
//!
//! Does not know: single sites.

use std::collections::BTreeMap;

use super::questionnaire::SiteRecord;

/// Counts and bounds over the records.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Statistics {
    /// The number of records.
    pub sites: usize,
    /// The least and the most disk space, PB.
    pub disk_pb: Option<(f64, f64)>,
    /// Disk space of all sites, PB.
    pub disk_pb_sum: f64,
    /// Sites by the protection of their disks.
    pub raid: BTreeMap<String, usize>,
    /// Sites that write faster than 10 Gbit/s.
    pub writes_beyond_10g: usize,
    /// Sites with a link of at least 10 Gbit/s.
    pub link_10g: usize,
    /// Sites with a link of at least 100 Gbit/s.
    pub link_100g: usize,
    /// Sites whose link can be raised to 100 Gbit/s or more.
    pub can_100g: usize,
    /// Sites that have or plan a data transfer node.
    pub dtn: usize,
    /// Sites with a science DMZ.
    pub dmz: usize,
    /// Sites with a firewall.
    pub firewall: usize,
    /// The year by which the networks of all sites that answered are adequate.
    pub adequate_by: Option<u16>,
    /// The mean growth that sites need.
    pub growth_factor: Option<f64>,
}

/// Counts records.
pub fn statistics(records: &[SiteRecord]) -> Statistics {
    let count = |holds: &dyn Fn(&SiteRecord) -> bool| records.iter().filter(|record| holds(record)).count();
    let numbers = |name: &str| records.iter().filter_map(|record| record.number(name)).collect::<Vec<f64>>();
    let at_least = |name: &str, least: f64| numbers(name).into_iter().filter(|number| *number >= least).count();
    let disk = numbers("disk_pb");
    let mut raid = BTreeMap::new();
    for word in records.iter().filter_map(|record| record.text("raid")) {
        *raid.entry(word.to_owned()).or_default() += 1;
    }
    let growth = numbers("growth_factor");
    Statistics {
        sites: records.len(),
        disk_pb: disk.iter().copied().reduce(f64::min).zip(disk.iter().copied().reduce(f64::max)),
        disk_pb_sum: disk.iter().sum(),
        raid,
        writes_beyond_10g: numbers("disk_write_gbit_s").into_iter().filter(|rate| *rate > 10.0).count(),
        link_10g: at_least("link_gbit_s", 10.0),
        link_100g: at_least("link_gbit_s", 100.0),
        can_100g: count(&|record| record.yes("link_can_100g") == Some(true)),
        dtn: count(&|record| record.yes("dtn") == Some(true)),
        dmz: count(&|record| record.yes("dmz") == Some(true)),
        firewall: count(&|record| record.yes("firewall") == Some(true)),
        adequate_by: numbers("link_adequate_until").into_iter().reduce(f64::max).map(|year| year as u16),
        growth_factor: (!growth.is_empty()).then(|| growth.iter().sum::<f64>() / growth.len() as f64),
    }
}
