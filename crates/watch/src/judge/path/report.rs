//! Reports on a path: the cells of the grid, and the explanation of its health.

use model::units::BitRate;
use model::v1::probe::Direction;
use model::v1::watch::{AlarmKind, Expectation, Explained, Half, Health};

use super::{PathJudge, direction_index};
use crate::judge::expect::{ExpectationInput, expectation};
use crate::judge::{Finding, percent};
use crate::mesh::TestKind;

/// A rate in words.
pub fn rate(bit_s: f64) -> String {
    BitRate(bit_s.max(0.0) as u64).to_string()
}

/// The test that shows an alarm of a kind.
pub fn shown_by(kind: AlarmKind) -> TestKind {
    match kind {
        AlarmKind::Throughput | AlarmKind::Asymmetry | AlarmKind::Exercise => TestKind::Throughput,
        AlarmKind::Route | AlarmKind::Mtu => TestKind::Path,
        _ => TestKind::Latency,
    }
}

impl PathJudge {
    /// The rate that a direction should give.
    pub fn expectation(&self, direction: Direction) -> Expectation {
        let side = &self.sides[direction_index(direction)];
        let [(lost, sent), _] = side.loss.totals();
        let known = ExpectationInput {
            link_bit_s: self.knowledge.link_bit_s,
            rtt_s: self.delays.rtt_s().or(side.last.as_ref().and_then(|last| last.min_rtt_s)),
            // One or two lost packets are too few for a rate.
            loss: (lost >= 3).then(|| lost as f64 / sent.max(1) as f64),
            last: side.last.as_ref(),
            normal_bit_s: side.tests.normal(),
        };
        expectation(&known)
    }

    /// The round trip with empty queues, seconds.
    pub fn rtt_s(&self) -> Option<f64> {
        self.delays.rtt_s()
    }

    /// Explains a direction; `findings` are those of the path.
    pub fn explain(&self, direction: Direction, findings: &[Finding], now: i64) -> Explained {
        let side = &self.sides[direction_index(direction)];
        let [six_hours, day] = side.loss.totals();
        let share = |(lost, sent): (u64, u64)| (sent > 0).then(|| lost as f64 / sent as f64);
        let routes = &self.routes[direction_index(direction)];
        let health = TestKind::ALL.into_iter().filter(|kind| self.knowledge.every[super::kind_index(*kind)].is_some());
        let health = health.map(|kind| self.health(kind, direction, findings, now)).reduce(Health::worse);
        Explained {
            health: health.unwrap_or_default(),
            expectation: self.expectation(direction),
            throughput_bit_s: side.tests.last(),
            loss_6h: share(six_hours),
            loss_24h: share(day),
            packets_24h: day.1,
            hops: routes.hops().to_vec(),
            mtu_bytes: routes.mtu_bytes(),
        }
    }

    fn health(&self, kind: TestKind, direction: Direction, findings: &[Finding], now: i64) -> Health {
        let latest = &self.latest[super::kind_index(kind)];
        if latest.at.is_none() || self.stale(kind, now).is_some() {
            let is_silent = kind == TestKind::Latency && self.silent_since.is_some();
            return if is_silent { Health::Critical } else { Health::Unknown };
        }
        let counts = |finding: &&Finding| {
            shown_by(finding.kind) == kind
                && finding.direction.is_none_or(|known| known == direction)
                && finding.kind != AlarmKind::Stale
        };
        findings.iter().filter(counts).map(|finding| finding.severity).fold(Health::Ok, Health::worse)
    }

    /// The half of a cell for a direction.
    pub fn half(&self, kind: TestKind, direction: Direction, findings: &[Finding], now: i64) -> Half {
        let latest = &self.latest[super::kind_index(kind)];
        let health = self.health(kind, direction, findings, now);
        let (text, value) = match kind {
            _ if latest.at.is_none() => ("no measurement yet".to_owned(), None),
            TestKind::Latency => self.latency_text(direction),
            TestKind::Throughput => self.throughput_text(direction),
            TestKind::Path => self.path_text(direction),
        };
        let age_s = latest.at.map(|at| (now - at).max(0) as f64 / 1e3);
        Half { health, text, value, age_s }
    }

    fn latency_text(&self, direction: Direction) -> (String, Option<f64>) {
        if self.silent_since.is_some() {
            return ("nothing answers".into(), None);
        }
        let [(lost, sent), _] = self.sides[direction_index(direction)].loss.totals();
        let share = lost as f64 / sent.max(1) as f64;
        let rtt = self.delays.rtt_s().map_or(String::new(), |rtt| format!(", {:.1} ms", rtt * 1e3));
        let queue = self.delays.last_queue(direction);
        let queue = if queue > 1_000.0 { format!(", queue {:.1} ms", queue / 1e3) } else { String::new() };
        (format!("{} lost{rtt}{queue}", percent(share)), Some(share))
    }

    fn throughput_text(&self, direction: Direction) -> (String, Option<f64>) {
        match self.sides[direction_index(direction)].tests.last() {
            Some(last) => (rate(last), Some(last)),
            None => ("no measurement yet".into(), None),
        }
    }

    fn path_text(&self, direction: Direction) -> (String, Option<f64>) {
        let routes = &self.routes[direction_index(direction)];
        let mtu = routes.mtu_bytes().map_or(String::new(), |mtu| format!(", MTU {mtu}"));
        match routes.hops().len() {
            0 => ("not known".into(), None),
            hops => (format!("{hops} hops{mtu}"), routes.mtu_bytes().map(f64::from)),
        }
    }
}
