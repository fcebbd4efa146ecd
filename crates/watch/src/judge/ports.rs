//! Whether loss is of some source ports alone: those that routers send over a bad member of a bundle.

use std::collections::VecDeque;

use model::v1::node::StreamReport;

/// Ports that are remembered: those of an hour and more.
const PORTS_MAX: usize = 128;
/// Packets lost before anything is said.
const LOST_MIN: u32 = 12;
/// Ports before anything is said.
const PORTS_MIN: usize = 6;
/// Standard deviations above what chance spreads.
const DEVIATIONS: f64 = 5.0;

/// Sent and lost by port, the newest last.
#[derive(Clone, Debug, Default)]
pub struct Ports {
    seen: VecDeque<(u16, u32, u32)>,
}

impl Ports {
    /// Adds what a report says.
    pub fn note(&mut self, report: &StreamReport) {
        for port in &report.by_port {
            match self.seen.iter_mut().rev().find(|(known, ..)| *known == port.port) {
                Some((_, sent, lost)) => {
                    *sent = sent.saturating_add(port.sent);
                    *lost = lost.saturating_add(port.lost);
                }
                None => self.seen.push_back((port.port, port.sent, port.lost)),
            }
        }
        while self.seen.len() > PORTS_MAX {
            self.seen.pop_front();
        }
    }

    /// Ports that lose, of how many, where chance does not explain that it is those: loss spreads wider than Poisson's (index of dispersion).
    pub fn concentrated(&self) -> Option<(usize, usize)> {
        let (sent, lost) =
            self.seen.iter().fold((0u64, 0u64), |(s, l), (_, sent, lost)| (s + u64::from(*sent), l + u64::from(*lost)));
        if lost < u64::from(LOST_MIN) || self.seen.len() < PORTS_MIN || sent == 0 {
            return None;
        }
        let rate = lost as f64 / sent as f64;
        let spread: f64 = self
            .seen
            .iter()
            .map(|(_, sent, lost)| {
                let expected = (rate * f64::from(*sent)).max(1e-9);
                (f64::from(*lost) - expected).powi(2) / expected
            })
            .sum();
        let freedom = self.seen.len() as f64 - 1.0;
        let lossy = self.seen.iter().filter(|(_, _, lost)| *lost > 0).count();
        (spread > freedom + DEVIATIONS * (2.0 * freedom).sqrt()).then_some((lossy, self.seen.len()))
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
            ports.note(&StreamReport { sent: 600, ports: 8, by_port, ..StreamReport::default() });
        }
        ports
    }

    #[test]
    fn one_member_of_four_is_told_from_loss_of_all() {
        assert!(minutes(40, |port| if port % 4 == 0 { 0.04 } else { 0.0 }).concentrated().is_some());
        assert!(minutes(60, |port| if port % 4 == 0 { 0.01 } else { 0.0 }).concentrated().is_some());
        assert_eq!(minutes(60, |_| 0.01).concentrated(), None);
        assert_eq!(minutes(60, |_| 0.001).concentrated(), None);
        assert_eq!(minutes(5, |_| 0.0).concentrated(), None);
    }
}
