//! Whether only some source ports lose packets: those that routers send over a bad member of a bundle.

use std::collections::{BTreeMap, VecDeque};

use model::v1::node::{PortLoss, StreamReport};
use model::v1::probe::Direction;

/// Reports with loss that are remembered.
const REPORTS_MAX: usize = 40;
/// The least number of lost packets for a finding.
const LOST_MIN: u64 = 12;
/// The least number of ports for a finding.
const PORTS_MIN: usize = 4;
/// The numbers of members that a bundle may have. Ports are reported only for minutes with loss, and in these minutes more ports than usual
/// are on the bad member: with four ports of which each loses little, a bundle of four members looks like one of
/// 4 (1 - (1 - 1/4)^4) = 2.7 members.
const MEMBERS: [f64; 4] = [2.0, 2.7, 4.0, 8.0];
/// The share of the losses that may have another cause, which affects all ports alike.
const OTHER_CAUSES: f64 = 0.1;
/// A bad member is found where it makes the losses of the ports e^9 times as likely as chance does. Chance reaches this in no more than one
/// of e^9 = 8,100 cases for each of [`MEMBERS`], however often it is tested (Ville's inequality): in a mesh of 15 paths and both directions
/// in one of 68. With e^6, one of three such meshes with loss of other causes had a wrong finding; two of twenty faults in the lab.
const EVIDENCE_MIN: f64 = 9.0;

/// Sent and lost by port, in reports with loss, the newest last.
#[derive(Clone, Debug, Default)]
pub struct Ports {
    reports: VecDeque<Minute>,
    /// For each direction, the end of the time whose losses have a cause that is over, milliseconds since 1970.
    forgotten: [i64; 2],
}

/// The losses of ports in one minute.
#[derive(Clone, Debug)]
struct Minute {
    /// Milliseconds since 1970.
    begin: i64,
    /// Whether the node reports in which direction a port lost packets: before 0.2 it does not.
    has_directions: bool,
    by_port: Box<[PortLoss]>,
}

impl Minute {
    /// The packets that a port lost in a direction, or in both where the node does not report the direction.
    fn lost(&self, port: &PortLoss, direction: Direction) -> u32 {
        match (self.has_directions, direction) {
            (false, _) => port.lost,
            (true, Direction::Forward) => port.lost.saturating_sub(port.lost_reverse),
            (true, Direction::Reverse) => port.lost_reverse,
        }
    }
}

impl Ports {
    /// Adds a report on the time from `begin`.
    pub fn add(&mut self, begin: i64, report: &StreamReport) {
        if report.by_port.is_empty() {
            return;
        }
        let has_directions = report.lost_reverse == 0 || report.by_port.iter().any(|port| port.lost_reverse > 0);
        self.reports.push_back(Minute { begin, has_directions, by_port: report.by_port.clone().into() });
        if self.reports.len() > REPORTS_MAX {
            self.reports.pop_front();
        }
    }

    /// Drops the losses so far of a direction: a cause that has ended explains them.
    pub fn forget(&mut self, direction: Direction) {
        if let Some(last) = self.reports.back() {
            self.forgotten[usize::from(direction == Direction::Reverse)] = last.begin + 1;
        }
    }

    /// The number of ports that lose in a direction and of all ports, within `within` milliseconds before the last loss, where chance does not explain the
    /// difference.
    pub fn concentrated(&self, direction: Direction, within: i64) -> Option<(usize, usize)> {
        let spread = self.spread_within(direction, within)?;
        spread.is_significant().then_some((spread.lossy, spread.ports))
    }

    /// How loss is spread over ports, within `within` milliseconds before the last loss: earlier loss of all ports would hide that of a member. Time is counted
    /// from the last loss, since reports arrive late. None where there was no loss, or there are too few ports.
    pub fn spread_within(&self, direction: Direction, within: i64) -> Option<LossByPort> {
        self.spread_since(direction, self.reports.back()?.begin.saturating_sub(within))
    }

    /// The same since a time.
    pub fn spread_since(&self, direction: Direction, since: i64) -> Option<LossByPort> {
        let mut ports: BTreeMap<u16, Port> = BTreeMap::new();
        let since = since.max(self.forgotten[usize::from(direction == Direction::Reverse)]);
        for minute in self.reports.iter().filter(|minute| minute.begin >= since) {
            let lost: u32 = minute.by_port.iter().map(|port| minute.lost(port, direction)).sum();
            let sent: u32 = minute.by_port.iter().map(|port| port.sent).sum();
            if lost == 0 {
                continue;
            }
            for port in &minute.by_port {
                let known = ports.entry(port.port).or_default();
                known.lost += minute.lost(port, direction);
                known.expected += f64::from(lost) * f64::from(port.sent) / f64::from(sent.max(1));
            }
        }
        if ports.len() < PORTS_MIN {
            return None;
        }
        Some(LossByPort {
            lost: ports.values().map(|port| u64::from(port.lost)).sum(),
            evidence: MEMBERS.map(|members| ports.values().map(|port| port.evidence(members)).sum()),
            lossy: ports.values().filter(|port| port.lost > 0).count(),
            ports: ports.len(),
        })
    }
}

/// A port over some minutes in which packets were lost.
#[derive(Clone, Copy, Debug, Default)]
struct Port {
    lost: u32,
    /// Packets that it would have lost if all ports lost alike in each minute.
    expected: f64,
}

impl Port {
    /// How much likelier its losses are if one of `members` members loses nearly all packets than if all ports lose alike (logarithm of the ratio of two Poisson
    /// likelihoods; the port is on the bad member with the chance 1 / members).
    fn evidence(&self, members: f64) -> f64 {
        let ratio = |times: f64| times.powi(self.lost as i32) * (self.expected * (1.0 - times)).exp();
        let on_bad_member = members * (1.0 - OTHER_CAUSES) + OTHER_CAUSES;
        (ratio(on_bad_member) / members + ratio(OTHER_CAUSES) * (1.0 - 1.0 / members)).max(f64::MIN_POSITIVE).ln()
    }
}

/// How loss is spread over source ports, of one path or several.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LossByPort {
    /// Packets lost.
    pub lost: u64,
    /// How much likelier a bad member makes it than chance, for each number of members that is tried (logarithms).
    pub evidence: [f64; MEMBERS.len()],
    /// Ports that lose.
    pub lossy: usize,
    /// Ports.
    pub ports: usize,
}

impl LossByPort {
    /// The sum of this and the loss of another path, which has ports of its own.
    #[must_use]
    pub fn plus(self, other: LossByPort) -> LossByPort {
        LossByPort {
            lost: self.lost + other.lost,
            evidence: std::array::from_fn(|at| self.evidence[at] + other.evidence[at]),
            lossy: self.lossy + other.lossy,
            ports: self.ports + other.ports,
        }
    }

    /// Whether ports differ by more than chance explains.
    pub fn is_significant(&self) -> bool {
        self.lost >= LOST_MIN && self.evidence.into_iter().fold(f64::MIN, f64::max) > EVIDENCE_MIN
    }
}

#[cfg(test)]
mod tests {
    use model::v1::node::PortLoss;

    use super::*;

    /// Minutes of eight ports with 75 packets each, of which a port loses each with its `chance`; one port is new every minute.
    fn minutes(count: u16, chance: impl Fn(u16) -> f64) -> Ports {
        let mut random = fastrand::Rng::with_seed(9);
        let mut ports = Ports::default();
        for minute in 0..count {
            let all: Vec<PortLoss> = (minute..minute + 8)
                .map(|port| PortLoss {
                    port: port + 1,
                    sent: 75,
                    lost: (0..75).filter(|_| random.f64() < chance(port)).count() as u32,
                    lost_reverse: 0,
                })
                .collect();
            let by_port = if all.iter().any(|port| port.lost > 0) { all } else { Vec::new() };
            ports.add(i64::from(minute), &StreamReport { sent: 600, ports: 8, by_port, ..StreamReport::default() });
        }
        ports
    }

    #[test]
    fn a_bad_member_of_four_is_distinguished_from_loss_of_all_ports() {
        assert!(
            minutes(40, |port| if port % 4 == 0 { 0.04 } else { 0.0 })
                .concentrated(Direction::Forward, i64::MAX)
                .is_some()
        );
        assert!(
            minutes(60, |port| if port % 4 == 0 { 0.01 } else { 0.0 })
                .concentrated(Direction::Forward, i64::MAX)
                .is_some()
        );
        assert_eq!(minutes(60, |_| 0.01).concentrated(Direction::Forward, i64::MAX), None);
        assert_eq!(minutes(60, |_| 0.001).concentrated(Direction::Forward, i64::MAX), None);
        assert_eq!(minutes(5, |_| 0.0).concentrated(Direction::Forward, i64::MAX), None);
    }

    #[test]
    fn many_paths_that_lose_little_show_a_member_together() {
        let report = |lost: [u32; 8]| {
            let by_port =
                (1..9).zip(lost).map(|(port, lost)| PortLoss { port, sent: 100, lost, lost_reverse: 0 }).collect();
            StreamReport { sent: 800, ports: 8, by_port, ..StreamReport::default() }
        };
        let spread = |lost: [u32; 8]| {
            let mut ports = Ports::default();
            ports.add(1, &report(lost));
            ports.spread_within(Direction::Forward, 0).unwrap()
        };
        let member = spread([3, 0, 0, 3, 0, 0, 0, 0]);
        assert!(!member.is_significant(), "one path has lost too few packets");
        assert!((0..8).fold(member, |all, _| all.plus(member)).is_significant(), "nine have not");
        let chance = spread([1, 0, 1, 0, 2, 1, 0, 1]);
        assert!(!(0..8).fold(chance, |all, _| all.plus(chance)).is_significant());
    }

    #[test]
    fn a_member_that_was_mended_does_not_explain_later_losses() {
        let report = |lost: [u32; 4], reverse: u32| {
            let port =
                |(port, lost): (u16, u32)| PortLoss { port, sent: 250, lost: lost + reverse, lost_reverse: reverse };
            let by_port = (1..5).zip(lost).map(port).collect();
            StreamReport { sent: 1000, lost_reverse: u64::from(reverse), ports: 4, by_port, ..StreamReport::default() }
        };
        let mut ports = Ports::default();
        (0..10).for_each(|minute| ports.add(minute, &report([0, 6, 0, 0], 1)));
        assert_eq!(ports.concentrated(Direction::Forward, i64::MAX), Some((1, 4)));
        ports.forget(Direction::Forward);
        assert_eq!(ports.spread_within(Direction::Forward, i64::MAX), None);
        assert_eq!(ports.spread_within(Direction::Reverse, i64::MAX).unwrap().lost, 40, "the other direction is kept");
        (10..20).for_each(|minute| ports.add(minute, &report([1, 1, 1, 1], 0)));
        assert_eq!(ports.concentrated(Direction::Forward, i64::MAX), None);
    }

    #[test]
    fn loss_of_an_earlier_cause_does_not_hide_a_member() {
        let report = |lost: [u32; 4]| {
            let by_port =
                (1..5).zip(lost).map(|(port, lost)| PortLoss { port, sent: 250, lost, lost_reverse: 0 }).collect();
            StreamReport { sent: 1000, ports: 4, by_port, ..StreamReport::default() }
        };
        let mut ports = Ports::default();
        (0..20).for_each(|minute| ports.add(minute, &report([9, 11, 10, 10])));
        (20..23).for_each(|minute| ports.add(minute, &report([0, 6, 0, 0])));
        assert_eq!(ports.concentrated(Direction::Forward, i64::MAX), None);
        assert_eq!(ports.concentrated(Direction::Forward, 2), Some((1, 4)));
    }
}
