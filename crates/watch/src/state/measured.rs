//! What the watch knows of the paths between sites, for plans.

use model::v1::probe::Direction;

use super::Watch;
use crate::mesh::TestKind;
use crate::time;

/// What was measured from one site to another.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredSitePath {
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

impl Watch {
    /// What was measured of the paths between sites, one entry for each direction. Paths inside a site are left out.
    pub fn measured_paths(&self) -> Vec<MeasuredSitePath> {
        let now = time::now();
        let watched = self.watched.load();
        let site = |place: &str| watched.config.places.get(place).map(|place| place.site.clone());
        let mut measured = Vec::new();
        for ((from, to), path) in self.paths.lock().iter() {
            let Some((from, to)) = site(from).zip(site(to)).filter(|(from, to)| from != to) else { continue };
            let of = |from: &str, to: &str, direction| {
                let value = |kind| path.judge.half(kind, direction, &path.findings, now).value;
                MeasuredSitePath {
                    from: from.to_owned(),
                    to: to.to_owned(),
                    rtt_s: path.judge.rtt_s(),
                    loss: value(TestKind::Latency),
                    rate_bit_s: value(TestKind::Throughput),
                }
            };
            measured.extend([of(&from, &to, Direction::Forward), of(&to, &from, Direction::Reverse)]);
        }
        measured
    }
}
