//! One direction of a path: its loss, the rate that TCP gets, and the cause where TCP gets less than it should.

use model::v1::node::StreamReport;
use model::v1::probe::Direction;
use model::v1::watch::{AlarmKind, CauseKind, Expectation, Health};

use super::report;
use crate::config::JudgeConfig;
use crate::judge::loss::Loss;
use crate::judge::shift::ShiftDetector;
use crate::judge::{Finding, in_direction, percent};
use crate::observation::Throughput;

/// Loss above this is a finding whatever the rate of the path allows: a path without load loses nothing.
pub const LOSS_FLOOR: f64 = 5e-6;
/// The share of reordered packets above which TCP suffers.
pub const REORDERED_MAX: f64 = 1e-3;
/// Loss comes with queues where the delays of lossy minutes are this many times those of others, and this many microseconds longer.
const QUEUED_TIMES: f64 = 3.0;
const QUEUED_US: f64 = 2_000.0;
/// The weight of one minute in a moving mean.
const WEIGHT: f64 = 0.1;
/// The share of the expected rate from which on a missing rate is a warning, and a critical finding.
const MISSING_WARNING: f64 = 0.2;
const MISSING_CRITICAL: f64 = 0.5;
/// A host is the limit if it limits for this share of the time.
const LIMITED_SHARE_MIN: f64 = 0.5;
/// The share of bytes sent again above which loss limits TCP.
const RESENT_SHARE_MIN: f64 = 5e-4;
/// A queue of sufficient length adds this share of the round trip before it overflows.
const QUEUE_SHARE: f64 = 0.25;
/// A policer drops at least this share of the bytes sent. Flows lose six times as much on average where they are policed (Flach et al., "An Internet-Wide
/// Analysis of Traffic Policing", SIGCOMM 2016); in the lab of `make bench-watch` 5 to 9 %, where a queue of 32 KiB drops less than 1 %.
const POLICED_RESENT_MIN: f64 = 0.03;

/// One direction.
#[derive(Clone, Debug)]
pub struct Side {
    pub loss: Loss,
    pub tests: ShiftDetector,
    pub last: Option<Throughput>,
    previous: Option<Throughput>,
    /// Longest minus least round trip of minutes with loss, and without: microseconds.
    lossy_us: Option<f64>,
    clean_us: Option<f64>,
}

fn moving_mean(mean: Option<f64>, value: f64) -> Option<f64> {
    Some(mean.map_or(value, |mean| mean + (value - mean) * WEIGHT))
}

impl Side {
    pub fn new(config: &JudgeConfig) -> Side {
        Side {
            loss: Loss::new(config.scale),
            tests: ShiftDetector::new(config.learn),
            last: None,
            previous: None,
            lossy_us: None,
            clean_us: None,
        }
    }

    /// Adds the counts and delays of a report.
    pub fn add_report(&mut self, report: &StreamReport, at: i64, sent: u64, lost: u64) {
        self.loss.add(at, sent, lost);
        let Some(delays) = report.round_trip else { return };
        let span = (delays.max_us - delays.min_us) as f64;
        let mean = if lost > 0 { &mut self.lossy_us } else { &mut self.clean_us };
        *mean = moving_mean(*mean, span);
    }

    /// Adds a test of TCP.
    pub fn add_test(&mut self, found: &Throughput) {
        self.tests.add(found.rate_bit_s);
        self.previous = self.last.replace(found.clone());
    }

    /// Whether loss comes with delay.
    pub fn is_congested(&self) -> bool {
        let clean = self.clean_us.unwrap_or(0.0);
        self.lossy_us.is_some_and(|lossy| lossy > clean * QUEUED_TIMES + QUEUED_US)
    }

    /// The finding where TCP gets less than it should; `loss_cause` is the cause of the loss of single packets in this direction, if there
    /// is one.
    pub fn throughput(
        &self,
        direction: Direction,
        expected: &Expectation,
        loss_cause: Option<CauseKind>,
        is_queued: bool,
    ) -> Option<Finding> {
        let last = self.last.as_ref()?;
        let recent_best = self.tests.recent_best()?;
        // Loss does not lower the target: the rate that loss costs is missing.
        let target =
            expected.terms.iter().filter(|term| term.name != "loss").map(|term| term.rate_bit_s).reduce(f64::min);
        let missing = target.map_or(0.0, |target| 1.0 - recent_best / target);
        let shift = self.tests.shift();
        let missing_most = shift.map_or(missing, |shift| shift.missing().max(missing));
        if shift.is_none() && missing < MISSING_WARNING {
            return None;
        }
        let cause = self.cause(direction, last, loss_cause, is_queued);
        let before_text =
            shift.map(|shift| format!(", where it was {}", report::rate(shift.before))).unwrap_or_default();
        let expected_text = expected.rate_bit_s.filter(|_| missing >= MISSING_WARNING).map(|rate| {
            format!(", and {} is expected ({})", report::rate(rate), expected.bound_by.as_deref().unwrap_or("?"))
        });
        let evidence = format!(
            "TCP gets {} {}{before_text}{}; {} sent again; {}",
            report::rate(recent_best),
            in_direction(Some(direction)),
            expected_text.unwrap_or_default(),
            percent(last.resent),
            last.limit
        );
        let severity = if missing_most >= MISSING_CRITICAL { Health::Critical } else { Health::Warning };
        Some(Finding { kind: AlarmKind::Throughput, direction: Some(direction), severity, evidence, cause })
    }

    fn cause(
        &self,
        direction: Direction,
        last: &Throughput,
        loss_cause: Option<CauseKind>,
        is_queued: bool,
    ) -> CauseKind {
        // The words of `probe` are near and far: in reverse the far end sends.
        let far_is_receiver = direction == Direction::Forward;
        let queued = match (last.rtt_s, last.min_rtt_s) {
            (Some(rtt), Some(least)) => (rtt - least) / least.max(1e-6),
            _ => 0.0,
        };
        match last.binding.as_str() {
            "receive_window" => return CauseKind::SlowReceiver,
            "send_buffer" => return CauseKind::SlowSender,
            "cpu_far" if far_is_receiver => return CauseKind::SlowReceiver,
            "cpu_near" if !far_is_receiver => return CauseKind::SlowReceiver,
            "cpu_near" | "cpu_far" => return CauseKind::SlowSender,
            _ => {}
        }
        if last.window_limited > LIMITED_SHARE_MIN {
            CauseKind::SlowReceiver
        } else if last.buffer_limited > LIMITED_SHARE_MIN {
            CauseKind::SlowSender
        } else if let Some(cause) = loss_cause {
            cause
        } else if is_queued {
            CauseKind::Congestion
        } else if last.resent > RESENT_SHARE_MIN && queued < QUEUE_SHARE {
            self.policer_or_queue(last)
        } else if queued >= QUEUE_SHARE || last.resent > 0.0 {
            CauseKind::NarrowLink
        } else {
            CauseKind::Unknown
        }
    }

    /// The cause where only TCP loses packets, and no queue grows before it does: a policer drops the same share all the time, a queue that
    /// is too short drops the part of a burst that it cannot hold.
    fn policer_or_queue(&self, last: &Throughput) -> CauseKind {
        let is_steady = self.previous.as_ref().is_some_and(|previous| {
            let apart = (previous.rate_bit_s - last.rate_bit_s).abs() / previous.rate_bit_s.max(1.0);
            previous.resent > RESENT_SHARE_MIN && apart < 0.15
        });
        if is_steady && last.resent > POLICED_RESENT_MIN { CauseKind::Policer } else { CauseKind::ShallowQueue }
    }
}
