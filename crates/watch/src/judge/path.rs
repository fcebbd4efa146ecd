//! The state of one path, and its findings.

mod report;
mod routes;
mod side;

use model::v1::node::StreamReport;
use model::v1::probe::Direction;
use model::v1::watch::{AlarmKind, CauseKind, Health};

use super::delay::{Delays, Step};
use super::loss::{Loss, LossFinding};
use super::ports::{LossByPort, Ports};
use super::{Finding, in_direction, percent};
use crate::config::JudgeConfig;
use crate::mesh::TestKind;
use crate::observation::{Observation, Throughput};
pub use report::shown_by;
use routes::RouteJudge;
use side::Side;

/// The losses of a report that overlaps an outage, or this time before it (milliseconds), do not count.
const OUTAGE_MARGIN_MS: i64 = 8_000;
/// Outages that are remembered, for reports that arrive after them.
const OUTAGES_MAX: usize = 8;
/// A result is stale after this many periods without a measurement, and a margin, milliseconds.
const STALE_PERIODS: f64 = 3.0;
const STALE_MARGIN_MS: f64 = 45_000.0;
/// Reports in a row in which the host was the limit, for a finding.
const BUSY_REPORTS: u32 = 30;
/// Failed tests in a row, for a finding.
const FAILED_TESTS: u32 = 3;
/// The least relative difference of the two directions, for a finding.
const ASYMMETRY_MIN: f64 = 0.3;

/// The configured facts of a path.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PathKnowledge {
    /// The rate of its links, bit/s.
    pub link_bit_s: Option<f64>,
    /// Routers that it should pass.
    pub hops: Vec<String>,
    /// The time from one measurement to the next for each kind of test, milliseconds; none where there is no test.
    pub every: [Option<f64>; 3],
}

/// The last measurement of a kind.
#[derive(Clone, Debug, Default)]
struct LatestTest {
    at: Option<i64>,
    /// Failures since then.
    failed: u32,
    why: String,
}

/// The judge of a path from one place to another.
#[derive(Clone, Debug)]
pub struct PathJudge {
    knowledge: PathKnowledge,
    sides: [Side; 2],
    /// Loss whose direction is unknown.
    unplaced: Loss,
    ports: Ports,
    /// Whether all paths with loss together show that one member of a bundle loses, by direction.
    is_member_loss: [bool; 2],
    delays: Delays,
    routes: [RouteJudge; 2],
    /// Since when the path is silent, and its last outages.
    silent_since: Option<i64>,
    outages: Vec<(i64, i64)>,
    latest: [LatestTest; 3],
    began: i64,
    /// Reports in a row in which the host was the limit.
    busy: u32,
    reordered: [Loss; 2],
    clock_step_us: Option<i64>,
}

fn kind_index(kind: TestKind) -> usize {
    match kind {
        TestKind::Latency => 0,
        TestKind::Throughput => 1,
        TestKind::Path => 2,
    }
}

fn direction_index(direction: Direction) -> usize {
    usize::from(direction == Direction::Reverse)
}

const BOTH: [Direction; 2] = [Direction::Forward, Direction::Reverse];

impl PathJudge {
    /// The judge of a path without measurements, from `now` on.
    pub fn new(knowledge: PathKnowledge, config: &JudgeConfig, now: i64) -> PathJudge {
        let loss = || Loss::new(config.scale);
        PathJudge {
            sides: [Side::new(config), Side::new(config)],
            routes: [RouteJudge::new(&knowledge.hops), RouteJudge::new(&[])],
            knowledge,
            unplaced: loss(),
            ports: Ports::default(),
            is_member_loss: [false; 2],
            delays: Delays::default(),
            silent_since: None,
            outages: Vec::new(),
            latest: Default::default(),
            began: now,
            busy: 0,
            reordered: [loss(), loss()],
            clock_step_us: None,
        }
    }

    /// Takes a changed configuration; what was learnt stays.
    pub fn update(&mut self, knowledge: PathKnowledge) {
        self.routes[0].expect_hops(&knowledge.hops);
        self.knowledge = knowledge;
    }

    /// Takes a measurement by the time when it began, milliseconds since 1970, and its length.
    pub fn observe(&mut self, kind: TestKind, observation: &Observation, begin: i64, seconds: f64) {
        let end = begin + (seconds * 1e3) as i64;
        if let Observation::Failed(why) = observation {
            let latest = &mut self.latest[kind_index(kind)];
            latest.failed += 1;
            latest.why.clone_from(why);
            return;
        }
        let latest = &mut self.latest[kind_index(kind)];
        *latest = LatestTest { at: Some(latest.at.map_or(end, |known| known.max(end))), ..LatestTest::default() };
        match observation {
            Observation::Stream(report) => self.add_stream_report(report, begin, end),
            Observation::Throughput(found) => self.sides[direction_index(found.direction)].add_test(found),
            Observation::Path(facts) => {
                for (route, facts) in self.routes.iter_mut().zip([&facts.forward, &facts.reverse]) {
                    facts.iter().for_each(|facts| route.add(facts));
                }
            }
            Observation::Silent => self.silent_since = Some(begin),
            Observation::Answers => {
                if let Some(since) = self.silent_since.take() {
                    self.outages.push((since - OUTAGE_MARGIN_MS, begin));
                    let surplus = self.outages.len().saturating_sub(OUTAGES_MAX);
                    self.outages.drain(..surplus);
                }
            }
            Observation::Failed(_) => {}
        }
    }

    /// Records that a report of a stream ended at this time and is not judged, because tests of the watch loaded the path.
    pub fn skip_report(&mut self, end: i64) {
        let latest = &mut self.latest[kind_index(TestKind::Latency)];
        *latest = LatestTest { at: Some(latest.at.map_or(end, |known| known.max(end))), ..LatestTest::default() };
    }

    fn add_stream_report(&mut self, report: &StreamReport, begin: i64, end: i64) {
        let overlaps = |(from, to): &(i64, i64)| begin < *to && end > *from;
        let is_silent = self.silent_since.is_some_and(|since| end > since - OUTAGE_MARGIN_MS);
        if is_silent || self.outages.iter().any(overlaps) || report.received == 0 {
            // An outage has a finding of its own: it is not loss of single packets.
            return;
        }
        let reflected = report.received + report.lost_reverse;
        self.sides[0].add_report(report, begin, report.sent, report.lost_forward);
        self.sides[1].add_report(report, begin, reflected, report.lost_reverse);
        self.unplaced.add(begin, report.sent, report.lost_unplaced);
        self.ports.add(begin, report);
        self.delays.add(report);
        self.reordered[0].add(begin, report.sent, report.reordered_forward);
        self.reordered[1].add(begin, reflected, report.reordered_reverse);
        self.busy = if report.host_limited { self.busy + 1 } else { 0 };
        self.clock_step_us = report.clock_step_us;
    }

    /// All present findings.
    pub fn findings(&mut self, now: i64) -> Vec<Finding> {
        let mut findings = Vec::new();
        self.find_silence(now, &mut findings);
        self.find_loss(&mut findings);
        self.find_delays(&mut findings);
        self.find_routes(&mut findings);
        self.find_throughput(&mut findings);
        self.find_host(&mut findings);
        findings
    }

    fn find_silence(&self, now: i64, findings: &mut Vec<Finding>) {
        if let Some(since) = self.silent_since {
            let seconds = (now - since).max(0) / 1_000;
            findings.push(Finding {
                kind: AlarmKind::Silent,
                direction: None,
                severity: Health::Critical,
                evidence: format!("nothing has answered for {seconds} s"),
                cause: CauseKind::Outage,
            });
        }
        for kind in TestKind::ALL {
            let Some(why) = self.stale(kind, now) else { continue };
            findings.push(Finding {
                kind: AlarmKind::Stale,
                direction: None,
                severity: Health::Unknown,
                evidence: why,
                cause: CauseKind::Unknown,
            });
            // One finding is enough for a path that is not measured.
            return;
        }
    }

    /// Why the result of a test is stale; none where it is fresh, or where there is no such test.
    fn stale(&self, kind: TestKind, now: i64) -> Option<String> {
        let every = self.knowledge.every[kind_index(kind)]?;
        let latest = &self.latest[kind_index(kind)];
        let age = (now - latest.at.unwrap_or(self.began)) as f64;
        if kind == TestKind::Latency && self.silent_since.is_some() {
            return None;
        }
        if latest.failed >= FAILED_TESTS {
            return Some(format!("{} has failed {} times: {}", kind.word(), latest.failed, latest.why));
        }
        if age <= every * STALE_PERIODS + STALE_MARGIN_MS {
            return None;
        }
        let why = if latest.why.is_empty() { String::new() } else { format!(": {}", latest.why) };
        Some(format!(
            "no measurement of {} for {:.0} s, though one is due every {:.0} s{why}",
            kind.word(),
            age / 1e3,
            every / 1e3
        ))
    }

    fn find_loss(&mut self, findings: &mut Vec<Finding>) {
        for direction in BOTH {
            let member = self.routes[direction_index(direction)].lossy_member().map(str::to_owned);
            // The tolerable loss is computed only where it is needed: most paths lose nothing.
            let may_be_found = self.sides[direction_index(direction)].loss.may_be_found();
            let allowed = may_be_found.then(|| self.expectation(direction).loss_allowed).flatten();
            let side = &mut self.sides[direction_index(direction)];
            let was_found = side.loss.latest().is_some();
            let Some(found) = side.loss.judge(allowed.unwrap_or(f64::MAX).min(side::LOSS_FLOOR)) else {
                self.is_member_loss[direction_index(direction)] = false;
                if was_found {
                    // The ports of a loss that has ended say nothing about the next one.
                    self.ports.forget(direction);
                }
                if let Some(member) = member {
                    findings.push(lossy_member(direction, member));
                }
                continue;
            };
            let is_harmful = allowed.is_some_and(|allowed| found.at_least > allowed);
            let concentrated = self.ports.concentrated(direction, found.window);
            let cause = match (&member, concentrated) {
                (Some(_), _) | (_, Some(_)) => CauseKind::LossyMember,
                _ if self.is_member_loss[direction_index(direction)] => CauseKind::LossyMember,
                _ if side.is_congested() => CauseKind::Congestion,
                _ => CauseKind::RandomLoss,
            };
            let mut evidence = format!(
                "{} of {} packets lost {} ({}; with 99 % at least {}) within {}",
                found.lost,
                found.sent,
                in_direction(Some(direction)),
                percent(found.rate()),
                percent(found.at_least),
                model::duration::show(std::time::Duration::from_millis(found.window.unsigned_abs())),
            );
            if let Some(allowed) = allowed {
                evidence.push_str(&format!("; the path allows {allowed:.1e}"));
            }
            if let Some((lossy, ports)) = concentrated {
                evidence.push_str(&format!("; {lossy} of {ports} source ports lost them"));
            }
            if concentrated.is_none() && self.is_member_loss[direction_index(direction)] {
                evidence.push_str("; over all paths with this loss, few of the source ports lost packets");
            }
            evidence.extend(member.map(|text| format!("; {text}")));
            let severity = if is_harmful { Health::Critical } else { Health::Warning };
            findings.push(Finding { kind: AlarmKind::Loss, direction: Some(direction), severity, evidence, cause });
        }
        if let Some(found) = self.unplaced.judge(side::LOSS_FLOOR) {
            let evidence = format!(
                "{} of {} packets lost ({}); the other end does not report in which direction",
                found.lost,
                found.sent,
                percent(found.rate())
            );
            findings.push(Finding {
                kind: AlarmKind::Loss,
                direction: None,
                severity: Health::Warning,
                evidence,
                cause: CauseKind::RandomLoss,
            });
        }
    }

    /// How the loss that was found is spread over source ports: in twice the window that shows it, so that a port can lose again; and since the loss
    /// began, for windows with too few packets.
    pub fn spreads(&self, direction: Direction) -> Option<[LossByPort; 2]> {
        let found = self.loss(direction)?;
        let in_window = self.ports.spread_within(direction, 2 * found.window)?;
        Some([in_window, self.ports.spread_since(direction, found.began).unwrap_or(in_window)])
    }

    /// Records that all paths with loss together show that one member of a bundle loses.
    pub fn blame_member(&mut self, direction: Direction) {
        self.is_member_loss[direction_index(direction)] = true;
    }

    /// Drops the losses so far: a cause that has ended explains them. A loss that was found on this path stays found.
    pub fn forget_loss(&mut self, direction: Direction) {
        if self.sides[direction_index(direction)].loss.forget() {
            self.ports.forget(direction);
        }
    }

    fn find_delays(&mut self, findings: &mut Vec<Finding>) {
        let warn =
            |kind, direction, evidence, cause| Finding { kind, direction, severity: Health::Warning, evidence, cause };
        // Under a full queue even the fastest packet waits: that is not a change of route.
        let is_queued = BOTH.iter().any(|direction| self.delays.queue(*direction).is_some());
        match self.delays.step().filter(|step| !is_queued || matches!(step, Step::Clock { .. })) {
            Some(Step::Route { before, after, direction }) => {
                let direction_text = direction.map_or("", |direction| in_direction(Some(direction)));
                let evidence = format!(
                    "the least round trip changed from {:.1} to {:.1} ms {direction_text}",
                    before / 1e3,
                    after / 1e3
                );
                findings.push(warn(
                    AlarmKind::Delay,
                    direction,
                    evidence.trim_end().to_owned(),
                    CauseKind::RouteChange,
                ));
            }
            Some(Step::Clock { by }) => {
                let evidence =
                    format!("the offset of the two clocks changed by {:.1} ms, round trips did not", by / 1e3);
                findings.push(warn(AlarmKind::Clock, None, evidence, CauseKind::ClockStep));
            }
            None => {
                if let Some(step) = self.clock_step_us {
                    let evidence = format!("the clock of the node was set by {:.1} ms", step as f64 / 1e3);
                    findings.push(warn(AlarmKind::Clock, None, evidence, CauseKind::ClockStep));
                }
            }
        }
        for direction in BOTH {
            if let Some((long, usual)) = self.delays.queue(direction) {
                let evidence = format!(
                    "packets wait {:.1} ms {} (95th percentile), usually {:.1} ms",
                    long / 1e3,
                    in_direction(Some(direction)),
                    usual / 1e3
                );
                findings.push(warn(AlarmKind::Queue, Some(direction), evidence, CauseKind::Congestion));
            }
            if let Some(found) = self.reordered[direction_index(direction)].judge(side::REORDERED_MAX) {
                let evidence =
                    format!("{} of {} packets reordered {}", found.lost, found.sent, in_direction(Some(direction)));
                findings.push(warn(AlarmKind::Reordering, Some(direction), evidence, CauseKind::LossyMember));
            }
        }
    }

    fn find_routes(&self, findings: &mut Vec<Finding>) {
        for direction in BOTH {
            self.routes[direction_index(direction)].find(direction, findings);
        }
        // A change of route explains a change of delay.
        let is_routed = findings.iter().any(|finding| finding.kind == AlarmKind::Route);
        if is_routed {
            findings.retain(|finding| finding.kind != AlarmKind::Delay);
        }
    }

    fn find_throughput(&self, findings: &mut Vec<Finding>) {
        let before = findings.len();
        for direction in BOTH {
            let loss_finding = findings.iter().find(|finding| {
                finding.kind == AlarmKind::Loss && finding.direction.is_none_or(|known| known == direction)
            });
            if self.sides[direction_index(direction)].last.is_none() {
                continue;
            }
            let is_queued = self.delays.queue(direction).is_some();
            let expected = self.expectation(direction);
            let found = self.sides[direction_index(direction)].throughput(
                direction,
                &expected,
                loss_finding.map(|finding| finding.cause),
                is_queued,
            );
            findings.extend(found);
        }
        if findings.len() > before {
            return;
        }
        let recent_best = BOTH.map(|direction| self.sides[direction_index(direction)].tests.recent_best());
        let normal = BOTH.map(|direction| self.sides[direction_index(direction)].tests.normal());
        if let ([Some(forward), Some(reverse)], [Some(forward_normal), Some(reverse_normal)]) = (recent_best, normal) {
            let uneven = |a: f64, b: f64| 1.0 - a.min(b) / a.max(b).max(1.0);
            // Directions that have always been uneven are so by design.
            if uneven(forward, reverse) > ASYMMETRY_MIN && uneven(forward_normal, reverse_normal) < ASYMMETRY_MIN {
                let direction = Some(Direction::of(forward < reverse));
                let evidence = format!("{} forward, and {} in reverse", report::rate(forward), report::rate(reverse));
                findings.push(Finding {
                    kind: AlarmKind::Asymmetry,
                    direction,
                    severity: Health::Warning,
                    evidence,
                    cause: CauseKind::Unknown,
                });
            }
        }
    }

    fn find_host(&self, findings: &mut Vec<Finding>) {
        if self.busy >= BUSY_REPORTS {
            findings.push(Finding {
                kind: AlarmKind::Host,
                direction: None,
                severity: Health::Warning,
                evidence: format!(
                    "the node has sent packets too late in {} measurements: its processors are overloaded",
                    self.busy
                ),
                cause: CauseKind::SlowSender,
            });
        }
    }

    /// The loss of a direction, by the last judgement.
    pub fn loss(&self, direction: Direction) -> Option<LossFinding> {
        self.losses(direction).latest()
    }

    /// The counts of lost packets of a direction.
    pub fn losses(&self, direction: Direction) -> &Loss {
        &self.sides[direction_index(direction)].loss
    }

    /// Whether the last test of a kind succeeded, so that a fault without a finding is absent.
    pub fn is_known(&self, kind: TestKind) -> bool {
        let latest = &self.latest[kind_index(kind)];
        latest.at.is_some() && latest.failed == 0
    }

    /// Whether the last test of TCP in a direction may be the first one of a shift.
    pub fn may_be_first_of_shift(&self, direction: Direction) -> bool {
        self.sides[direction_index(direction)].tests.may_be_first_of_shift()
    }

    /// Whether the last queue of a direction may be the first of a long one.
    pub fn may_be_first_long_queue(&self, direction: Direction) -> bool {
        self.delays.may_be_first_long_queue(direction)
    }

    /// The last test of TCP in a direction.
    pub fn last_test(&self, direction: Direction) -> Option<&Throughput> {
        self.sides[direction_index(direction)].last.as_ref()
    }
}

fn lossy_member(direction: Direction, evidence: String) -> Finding {
    Finding {
        kind: AlarmKind::Loss,
        direction: Some(direction),
        severity: Health::Warning,
        evidence,
        cause: CauseKind::LossyMember,
    }
}

#[cfg(test)]
mod tests;
