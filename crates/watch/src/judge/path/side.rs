//! One direction of a path: its loss and what TCP gets, and why TCP gets less.

use model::v1::node::StreamReport;
use model::v1::probe::Direction;
use model::v1::watch::{AlarmKind, CauseKind, Expectation, Health};

use super::report;
use crate::config::JudgeConfig;
use crate::judge::loss::Loss;
use crate::judge::shift::ShiftDetector;
use crate::judge::{Finding, in_direction, percent};
use crate::observation::Throughput;

/// Loss that is surely above this is told, whatever the path's rate allows: a path without load loses nothing.
pub const LOSS_FLOOR: f64 = 5e-6;
/// Packets that are overtaken, of which TCP takes notice.
pub const REORDERED_MAX: f64 = 1e-3;
/// Loss with queues: delays of lossy minutes are so many times those of others, and so many microseconds longer.
const QUEUED_TIMES: f64 = 3.0;
const QUEUED_US: f64 = 2_000.0;
/// How much one minute moves a mean.
const WEIGHT: f64 = 0.1;
/// What is missing of the expectation for a warning, and for worse.
const MISSING: f64 = 0.2;
const MISSING_MUCH: f64 = 0.5;
/// A host limits for this share of the time.
const LIMITED: f64 = 0.5;
/// Bytes sent again from which on TCP lives with loss.
const RESENT: f64 = 5e-4;
/// A queue that is as long as it should be adds so much of the round trip before it runs over.
const QUEUE_SHARE: f64 = 0.25;
/// A policer takes so much of what is sent, or of the rate; a short queue lets most of it pass.
const POLICED: f64 = 0.03;
const POLICED_MISSING: f64 = 0.4;

/// One direction.
#[derive(Clone, Debug)]
pub struct Side {
    pub loss: Loss,
    pub tests: ShiftDetector,
    pub last: Option<Throughput>,
    before: Option<Throughput>,
    /// Longest minus least round trip of minutes with loss, and without: microseconds.
    lossy_us: Option<f64>,
    clean_us: Option<f64>,
}

fn moved(mean: Option<f64>, value: f64) -> Option<f64> {
    Some(mean.map_or(value, |mean| mean + (value - mean) * WEIGHT))
}

impl Side {
    pub fn new(config: &JudgeConfig) -> Side {
        Side {
            loss: Loss::new(config.scale),
            tests: ShiftDetector::new(config.learn),
            last: None,
            before: None,
            lossy_us: None,
            clean_us: None,
        }
    }

    pub fn streamed(&mut self, report: &StreamReport, at: i64, sent: u64, lost: u64) {
        self.loss.note(at, sent, lost);
        let Some(delays) = report.round_trip else { return };
        let span = (delays.max_us - delays.min_us) as f64;
        let mean = if lost > 0 { &mut self.lossy_us } else { &mut self.clean_us };
        *mean = moved(*mean, span);
    }

    pub fn tested(&mut self, found: &Throughput) {
        self.tests.note(found.rate_bit_s);
        self.before = self.last.replace(found.clone());
    }

    /// Loss comes with delay.
    pub fn is_congested(&self) -> bool {
        let clean = self.clean_us.unwrap_or(0.0);
        self.lossy_us.is_some_and(|lossy| lossy > clean * QUEUED_TIMES + QUEUED_US)
    }

    /// What is wrong with what TCP gets; `lost` is the cause of the loss of single packets in this direction, if there is one.
    pub fn throughput(
        &self,
        direction: Direction,
        expected: &Expectation,
        lost: Option<CauseKind>,
        is_queued: bool,
    ) -> Option<Finding> {
        let (last, lately) = (self.last.as_ref()?, self.tests.lately()?);
        // What loss takes is told as what it is: less than the path should give.
        let target =
            expected.terms.iter().filter(|term| term.name != "loss").map(|term| term.rate_bit_s).reduce(f64::min);
        let missing = target.map_or(0.0, |target| 1.0 - lately / target);
        let shift = self.tests.shift();
        let gone = shift.map_or(missing, |shift| shift.missing().max(missing));
        if shift.is_none() && missing < MISSING {
            return None;
        }
        let cause = self.cause(direction, last, lost, is_queued, gone);
        let was = shift.map(|shift| format!(", where it was {}", report::rate(shift.before))).unwrap_or_default();
        let should = expected.rate_bit_s.filter(|_| missing >= MISSING).map(|rate| {
            format!(", and {} is expected ({})", report::rate(rate), expected.bound_by.as_deref().unwrap_or("?"))
        });
        let evidence = format!(
            "TCP gets {} {}{was}{}; {} sent again; {}",
            report::rate(lately),
            in_direction(Some(direction)),
            should.unwrap_or_default(),
            percent(last.resent),
            last.limit
        );
        let severity = if gone >= MISSING_MUCH { Health::Critical } else { Health::Warning };
        Some(Finding { kind: AlarmKind::Throughput, direction: Some(direction), severity, evidence, cause })
    }

    fn cause(
        &self,
        direction: Direction,
        last: &Throughput,
        lost: Option<CauseKind>,
        is_queued: bool,
        gone: f64,
    ) -> CauseKind {
        // `probe` speaks of near and far: in reverse the far end sends.
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
        if last.window_limited > LIMITED {
            CauseKind::SlowReceiver
        } else if last.buffer_limited > LIMITED {
            CauseKind::SlowSender
        } else if let Some(cause) = lost {
            cause
        } else if is_queued {
            CauseKind::Congestion
        } else if last.resent > RESENT && queued < QUEUE_SHARE {
            self.squeezed(last, gone)
        } else if queued >= QUEUE_SHARE || last.resent > 0.0 {
            CauseKind::NarrowLink
        } else {
            CauseKind::Unknown
        }
    }

    /// Loss of what TCP sends alone, without a queue before it: a rate that is policed takes the same share all the time, a queue that is too short
    /// lets bursts through as far as it holds them.
    fn squeezed(&self, last: &Throughput, gone: f64) -> CauseKind {
        let steady = self.before.as_ref().is_some_and(|before| {
            let apart = (before.rate_bit_s - last.rate_bit_s).abs() / before.rate_bit_s.max(1.0);
            before.resent > RESENT && apart < 0.15
        });
        let is_hard = last.resent > POLICED || gone > POLICED_MISSING;
        if steady && is_hard && last.resent > 5e-3 { CauseKind::Policer } else { CauseKind::ShallowQueue }
    }
}
