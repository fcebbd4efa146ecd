//! Runs of schedules. A heavy test claims both ends. A run that cannot begin, because an end is busy, is tried again within its slip.

use std::sync::Arc;
use std::time::{Duration, Instant};

use auth::Access;
use model::fault::{Blame, Fault, with_causes};
use model::id::Uuid;
use model::v1::node::{Found, ProbeTest, Repeat, TcpProbe};
use model::v1::probe::{Claim, ClaimLine, ProbeDocument};
use model::{HostPort, Refusal};
use probe::Stop;

use super::order::{self, SchedulePlan, Target};
use super::{ScheduleRecord, Schedules, unix_seconds_f};
use crate::pscheduler::leading;
use crate::test_orders::{TestFailure, TestRun, tcp_order};

/// How long a claim outlasts its test, seconds: for messages on their way, and streams that drain.
const GRACE_S: f64 = 60.0;
/// The longest pause before another attempt, seconds; the shortest is 1 s.
const RETRY_S_MAX: f64 = 15.0;
/// The length of a test that names none, seconds.
const LENGTH_S: f64 = 600.0;

/// The outcome of one attempt at a run.
enum Attempt {
    Report(serde_json::Value),
    Busy(String),
    Failed(TestFailure),
}

/// Whether a test must not run at the same time as others.
fn is_heavy(test: &ProbeTest) -> bool {
    matches!(test, ProbeTest::Tcp(_) | ProbeTest::Udp(_))
}

fn length_s(test: &ProbeTest) -> f64 {
    match test {
        ProbeTest::Tcp(tcp) => tcp.seconds.map_or(10.0, |seconds| seconds) + tcp.omit_s,
        ProbeTest::Udp(udp) => udp.seconds,
        _ => LENGTH_S,
    }
}

impl Schedules {
    /// Begins a run on a thread of its own.
    pub(super) fn begin_run(self: &Arc<Self>, id: Uuid, record: Arc<ScheduleRecord>) {
        let schedules = Arc::clone(self);
        let work = move || {
            if let Ok(SchedulePlan::Repeat { target, repeat }) = order::read(&record.schedule) {
                let began = Instant::now();
                let at_s = unix_seconds_f();
                let found = schedules.run_within_slip(&record, &target, &repeat);
                schedules.add_measurement(&id, at_s, began.elapsed().as_secs_f64(), found);
            }
            schedules.run_ended(&id);
        };
        if std::thread::Builder::new().name("scheduled-test".into()).spawn(work).is_err() {
            self.run_ended(&id);
        }
    }

    fn run_ended(&self, id: &Uuid) {
        let mut table = self.table();
        table.runs = table.runs.saturating_sub(1);
        if let Some(entry) = table.entries.get_mut(id) {
            entry.is_running = false;
        }
    }

    fn run_within_slip(&self, record: &ScheduleRecord, target: &Target, repeat: &Repeat) -> Found {
        let until = Instant::now() + Duration::from_secs_f64(repeat.slip_s);
        loop {
            match self.attempt(record, target, repeat) {
                Attempt::Report(report) => return Found::Report(report),
                Attempt::Failed(TestFailure { fault, why, .. }) => {
                    return Found::Failed { fault: fault.word().into(), why };
                }
                Attempt::Busy(why) => {
                    // A random pause, so that two runs that collided do not collide again.
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() || self.services.shutdown.has_begun() {
                        return Found::Missed { why };
                    }
                    self.sleep(Duration::from_secs_f64(1.0 + fastrand::f64() * (RETRY_S_MAX - 1.0)).min(left));
                }
            }
        }
    }

    fn sleep(&self, pause: Duration) {
        let until = Instant::now() + pause;
        while Instant::now() < until && !self.services.shutdown.has_begun() {
            std::thread::sleep(super::CHECK_EVERY.min(until.saturating_duration_since(Instant::now())));
        }
    }

    fn attempt(&self, record: &ScheduleRecord, target: &Target, repeat: &Repeat) -> Attempt {
        let Some(access) = self.services.access.access_of(&record.holder) else {
            return Attempt::Failed(TestFailure::new(Fault::Auth, super::HOLDER_UNKNOWN.to_owned()));
        };
        if !is_heavy(&repeat.test) {
            return self.try_once(record, target, repeat, &access, None);
        }
        let seconds = length_s(&repeat.test) + GRACE_S;
        let claim = Claim { token: random_token(), seconds, waits_for_transfers: repeat.waits_for_transfers };
        if let ClaimLine::Busy { why } = self.claim(&claim) {
            return Attempt::Busy(format!("this node: {why}"));
        }
        let attempt = self.try_once(record, target, repeat, &access, Some(&claim));
        self.services.claims.claim(&Claim { seconds: 0.0, ..claim }, None);
        attempt
    }

    /// Claims this node, unless something else runs here.
    fn claim(&self, claim: &Claim) -> ClaimLine {
        let transfers = if claim.waits_for_transfers { self.services.jobs.under_way() } else { 0 };
        self.services.claims.claim(claim, self.services.tests.obstacle(transfers, claim.seconds))
    }

    fn try_once(
        &self,
        record: &ScheduleRecord,
        target: &Target,
        repeat: &Repeat,
        access: &Access,
        claim: Option<&Claim>,
    ) -> Attempt {
        let outcome = match target {
            Target::Node(_) => {
                let order = Arc::new(order::order_of(&record.schedule, repeat));
                let run = TestRun { order, access: access.clone(), stop: Stop::default(), claim: claim.copied() };
                run.run(&self.services.access, &self.services.transfers)
            }
            Target::Iperf3(at) => self.iperf3(record, at, repeat),
            Target::Pscheduler(at) => match &repeat.test {
                ProbeTest::Tcp(tcp) => self.pscheduler(record, at, tcp),
                _ => self.path(record, at, repeat),
            },
            Target::Stamp(at) | Target::Twamp(at) => self.path(record, at, repeat),
            Target::Ping(host) => self.path(record, &HostPort { host: host.clone(), port: 1 }, repeat),
        };
        let report = outcome.and_then(|text| {
            serde_json::from_str(&text).map_err(|error| TestFailure::new(Fault::Bug, error.to_string()))
        });
        match report {
            Ok(report) => Attempt::Report(report),
            Err(failed) if failed.is_busy => Attempt::Busy(format!("{}: {}", record.schedule.target, failed.why)),
            Err(failed) => Attempt::Failed(failed),
        }
    }

    fn address(&self, at: &HostPort) -> Result<std::net::SocketAddr, TestFailure> {
        self.resolve(at).map_err(|why| TestFailure::new(Fault::Path, why))
    }

    fn iperf3(&self, record: &ScheduleRecord, at: &HostPort, repeat: &Repeat) -> Result<String, TestFailure> {
        let ProbeTest::Tcp(tcp) = &repeat.test else {
            return Err(Refusal::new(Fault::Config, "iperf3 is tested with TCP").into());
        };
        let order = tcp_order(tcp)?;
        let report = probe::iperf3::test(self.address(at)?, &order, &Stop::default(), &mut |_| {});
        line(record, "tcp", &report.map_err(|error| TestFailure::new(error.fault(), with_causes(&error)))?)
    }

    fn pscheduler(&self, record: &ScheduleRecord, at: &HostPort, tcp: &TcpProbe) -> Result<String, TestFailure> {
        let order = tcp_order(tcp)?;
        let is_over = || self.services.shutdown.has_begun();
        let report = leading::lead_test(self.address(at)?, &at.host, &order, &unix_seconds_f, &is_over)?;
        line(record, "tcp", &report)
    }

    fn path(&self, record: &ScheduleRecord, at: &HostPort, repeat: &Repeat) -> Result<String, TestFailure> {
        let ProbeTest::Path(path) = &repeat.test else {
            return Err(Refusal::new(Fault::Config, "only the path to a host that is not a node can be tested").into());
        };
        let order = crate::test_orders::path_order(path);
        let address = self.address(at)?.ip();
        let routes =
            probe::task::token().and_then(|token| probe::route::one_way(address, &order, &token, &Stop::default()));
        line(record, "path", &routes.map_err(|error| TestFailure::new(error.fault(), with_causes(&error)))?)
    }
}

/// The line that `longhaul probe --json` would print.
fn line<T: serde::Serialize>(record: &ScheduleRecord, test: &'static str, found: &T) -> Result<String, TestFailure> {
    serde_json::to_string(&ProbeDocument::of("result", test, &record.schedule.target, found))
        .map_err(|error| TestFailure::new(Fault::Bug, error.to_string()))
}

fn random_token() -> [u8; 16] {
    *Uuid::now_v7().as_bytes()
}
