//! Whether loss is of some source ports alone: those that routers send over a bad member of a bundle.

use std::collections::{BTreeMap, VecDeque};

use model::v1::node::{PortLoss, StreamReport};

/// Reports with loss that are remembered: of a path that loses with every one, some minutes.
const REPORTS_MAX: usize = 40;
/// Packets lost before anything is said.
const LOST_MIN: u32 = 12;
/// Ports before anything is said.
const PORTS_MIN: usize = 4;
/// Standard deviations above what chance spreads.
const DEVIATIONS: f64 = 6.0;
/// The same of several paths together: so many at once are no chance of one of a thousand paths that are looked at, and ports that live for minutes have little time
/// to lose twice. In 200 simulated losses of all ports alike, over nine paths, none was above 2.3.
const DEVIATIONS_TOGETHER: f64 = 3.5;
const LOST_TOGETHER_MIN: u64 = 40;

/// Sent and lost by port, in reports with loss, the newest last.
#[derive(Clone, Debug, Default)]
pub struct Ports {
    reports: VecDeque<(i64, Box<[PortLoss]>)>,
}

impl Ports {
    /// Adds what a report says that began then.
    pub fn note(&mut self, begin: i64, report: &StreamReport) {
        if report.by_port.is_empty() {
            return;
        }
        self.reports.push_back((begin, report.by_port.clone().into()));
        if self.reports.len() > REPORTS_MAX {
            self.reports.pop_front();
        }
    }

    /// Ports that lose, of how many, within so many milliseconds before the last loss, where chance does not explain that it is those.
    pub fn concentrated(&self, within: i64) -> Option<(usize, usize)> {
        let spread = self.spread(within)?;
        spread.is_no_chance().then_some((spread.lossy, spread.ports))
    }

    /// How loss is spread over ports, within so many milliseconds before the last loss: that of an earlier cause, by all ports alike, would hide that of a
    /// member. Not before now: a report comes some time after what it tells of. None where there was no loss, or there are too few ports.
    pub fn spread(&self, within: i64) -> Option<Spread> {
        let (last, _) = self.reports.back()?;
        let since = last.saturating_sub(within);
        let mut ports: BTreeMap<u16, (u32, u32)> = BTreeMap::new();
        for (_, report) in self.reports.iter().filter(|(begin, _)| *begin >= since) {
            for port in report {
                let (sent, lost) = ports.entry(port.port).or_default();
                (*sent, *lost) = (sent.saturating_add(port.sent), lost.saturating_add(port.lost));
            }
        }
        let total =
            ports.values().fold((0u64, 0u64), |(sent, lost), of| (sent + u64::from(of.0), lost + u64::from(of.1)));
        if total.1 == 0 || ports.len() < PORTS_MIN || total.0 == 0 {
            return None;
        }
        let rate = total.1 as f64 / total.0 as f64;
        let deviation = |(sent, lost): &(u32, u32)| {
            let expected = (rate * f64::from(*sent)).max(1e-9);
            (f64::from(*lost) - expected).powi(2) / expected
        };
        Some(Spread {
            lost: total.1,
            dispersion: ports.values().map(deviation).sum(),
            freedom: ports.len() as f64 - 1.0,
            lossy: ports.values().filter(|(_, lost)| *lost > 0).count(),
            ports: ports.len(),
        })
    }
}

/// How loss is spread over source ports; of several paths their sum.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// Packets lost.
    pub lost: u64,
    /// By how much ports differ (Poisson's index of dispersion), and by how much they would by chance.
    pub dispersion: f64,
    /// Degrees of freedom.
    pub freedom: f64,
    /// Ports that lose.
    pub lossy: usize,
    /// Ports.
    pub ports: usize,
}

impl Spread {
    /// This, and that of another path with ports of its own.
    #[must_use]
    pub fn and(self, other: Spread) -> Spread {
        Spread {
            lost: self.lost + other.lost,
            dispersion: self.dispersion + other.dispersion,
            freedom: self.freedom + other.freedom,
            lossy: self.lossy + other.lossy,
            ports: self.ports + other.ports,
        }
    }

    /// Whether ports of one path differ by more than chance explains.
    pub fn is_no_chance(&self) -> bool {
        self.lost >= u64::from(LOST_MIN) && self.deviations() > DEVIATIONS
    }

    /// Whether ports of several paths together do.
    pub fn is_no_chance_together(&self) -> bool {
        self.lost >= LOST_TOGETHER_MIN && self.deviations() > DEVIATIONS_TOGETHER
    }

    /// By how many standard deviations ports differ more than by chance.
    fn deviations(&self) -> f64 {
        (self.dispersion - self.freedom) / (2.0 * self.freedom).sqrt().max(1e-9)
    }
}

#[cfg(test)]
mod tests {
    use model::v1::node::PortLoss;

    use super::*;

    /// Minutes of eight ports with 75 packets each; `chance` of each port, one of which is new every minute.
    fn minutes(count: u16, chance: impl Fn(u16) -> f64) -> Ports {
        let mut random = fastrand::Rng::with_seed(9);
        let mut ports = Ports::default();
        for minute in 0..count {
            let all: Vec<PortLoss> = (minute..minute + 8)
                .map(|port| PortLoss {
                    port: port + 1,
                    sent: 75,
                    lost: (0..75).filter(|_| random.f64() < chance(port)).count() as u32,
                })
                .collect();
            let by_port = if all.iter().any(|port| port.lost > 0) { all } else { Vec::new() };
            ports.note(i64::from(minute), &StreamReport { sent: 600, ports: 8, by_port, ..StreamReport::default() });
        }
        ports
    }

    #[test]
    fn one_member_of_four_is_told_from_loss_of_all() {
        assert!(minutes(40, |port| if port % 4 == 0 { 0.04 } else { 0.0 }).concentrated(i64::MAX).is_some());
        assert!(minutes(60, |port| if port % 4 == 0 { 0.01 } else { 0.0 }).concentrated(i64::MAX).is_some());
        assert_eq!(minutes(60, |_| 0.01).concentrated(i64::MAX), None);
        assert_eq!(minutes(60, |_| 0.001).concentrated(i64::MAX), None);
        assert_eq!(minutes(5, |_| 0.0).concentrated(i64::MAX), None);
    }

    #[test]
    fn many_paths_that_lose_little_show_a_member_together() {
        let report = |lost: [u32; 8]| {
            let by_port = (1..9).zip(lost).map(|(port, lost)| PortLoss { port, sent: 100, lost }).collect();
            StreamReport { sent: 800, ports: 8, by_port, ..StreamReport::default() }
        };
        let spread = |lost: [u32; 8]| {
            let mut ports = Ports::default();
            ports.note(1, &report(lost));
            ports.spread(0).unwrap()
        };
        let member = spread([3, 0, 0, 3, 0, 0, 0, 0]);
        assert!(!member.is_no_chance(), "one path has lost too little to tell");
        assert!((0..8).fold(member, |all, _| all.and(member)).is_no_chance_together(), "nine have not");
        let chance = spread([1, 0, 1, 0, 2, 1, 0, 1]);
        assert!(!(0..8).fold(chance, |all, _| all.and(chance)).is_no_chance_together());
    }

    #[test]
    fn loss_of_an_earlier_cause_hides_no_member() {
        let report = |lost: [u32; 4]| {
            let by_port = (1..5).zip(lost).map(|(port, lost)| PortLoss { port, sent: 250, lost }).collect();
            StreamReport { sent: 1000, ports: 4, by_port, ..StreamReport::default() }
        };
        let mut ports = Ports::default();
        (0..20).for_each(|minute| ports.note(minute, &report([9, 11, 10, 10])));
        (20..23).for_each(|minute| ports.note(minute, &report([0, 6, 0, 0])));
        assert_eq!(ports.concentrated(i64::MAX), None);
        assert_eq!(ports.concentrated(2), Some((1, 4)));
    }
}
