//! Runs of schedules: claimed at both ends where they are heavy, tried again within their slip where something is in the way.

use std::sync::Arc;
use std::time::{Duration, Instant};

use auth::Access;
use model::fault::{Blame, Fault, with_causes};
use model::id::Uuid;
use model::v1::node::{Found, ProbeTest, Repeat, TcpProbe};
use model::v1::probe::{Claim, ClaimLine, Said};
use model::{HostPort, Refusal};
use probe::Stop;

use super::order::{self, Plan, Target};
use super::{Kept, Schedules, unix_seconds_f};
use crate::pscheduler::lead;
use crate::test_orders::{Failed, Run, tcp_order};

/// A claim outlasts its test by so much, seconds: words on their way, streams that drain.
const GRACE_S: f64 = 60.0;
/// One that is in the way is asked again after a time from one to so many seconds.
const AGAIN_S_MAX: f64 = 15.0;
/// What a test that has no length of its own may take, seconds.
const LENGTH_S: f64 = 600.0;

/// What came of one attempt.
enum Attempt {
    Report(serde_json::Value),
    Busy(String),
    Failed(Failed),
}

/// A test that must not run beside others.
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
    pub(super) fn begin_run(self: &Arc<Self>, id: Uuid, kept: Arc<Kept>) {
        let schedules = Arc::clone(self);
        let work = move || {
            if let Ok(Plan::Repeat { target, repeat }) = order::read(&kept.schedule) {
                let began = Instant::now();
                let at_s = unix_seconds_f();
                let found = schedules.run_within_slip(&kept, &target, &repeat);
                schedules.found(&id, at_s, began.elapsed().as_secs_f64(), found);
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

    fn run_within_slip(&self, kept: &Kept, target: &Target, repeat: &Repeat) -> Found {
        let until = Instant::now() + Duration::from_secs_f64(repeat.slip_s);
        loop {
            match self.attempt(kept, target, repeat) {
                Attempt::Report(report) => return Found::Report(report),
                Attempt::Failed(Failed { fault, why, .. }) => return Found::Failed { fault: fault.word().into(), why },
                Attempt::Busy(why) => {
                    // At a random time: two that were in each other's way are not again.
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() || self.means.shutdown.has_begun() {
                        return Found::Missed { why };
                    }
                    self.sleep(Duration::from_secs_f64(1.0 + fastrand::f64() * (AGAIN_S_MAX - 1.0)).min(left));
                }
            }
        }
    }

    fn sleep(&self, pause: Duration) {
        let until = Instant::now() + pause;
        while Instant::now() < until && !self.means.shutdown.has_begun() {
            std::thread::sleep(super::LOOK.min(until.saturating_duration_since(Instant::now())));
        }
    }

    fn attempt(&self, kept: &Kept, target: &Target, repeat: &Repeat) -> Attempt {
        let Some(access) = self.means.access.access_of(&kept.holder) else {
            let why = "who ordered it is not known here any more".to_owned();
            return Attempt::Failed(Failed::new(Fault::Auth, why));
        };
        if !is_heavy(&repeat.test) {
            return self.try_once(kept, target, repeat, &access, None);
        }
        let seconds = length_s(&repeat.test) + GRACE_S;
        let claim = Claim { token: random_token(), seconds, is_shy_of_transfers: repeat.waits_for_transfers };
        if let ClaimLine::Busy { why } = self.claim(&claim) {
            return Attempt::Busy(format!("this node: {why}"));
        }
        let attempt = self.try_once(kept, target, repeat, &access, Some(&claim));
        self.means.claims.claim(&Claim { seconds: 0.0, ..claim }, None);
        attempt
    }

    /// Claims this node, where nothing here is in the way.
    fn claim(&self, claim: &Claim) -> ClaimLine {
        let transfers = if claim.is_shy_of_transfers { self.means.jobs.under_way() } else { 0 };
        self.means.claims.claim(claim, self.means.tests.in_the_way(transfers, claim.seconds))
    }

    fn try_once(
        &self,
        kept: &Kept,
        target: &Target,
        repeat: &Repeat,
        access: &Access,
        claim: Option<&Claim>,
    ) -> Attempt {
        let found = match target {
            Target::Node(_) => {
                let order = Arc::new(order::order_of(&kept.schedule, repeat));
                let run = Run { order, access: access.clone(), stop: Stop::default(), claim: claim.copied() };
                run.run(&self.means.access, &self.means.transfers)
            }
            Target::Iperf3(at) => self.iperf3(kept, at, repeat),
            Target::Pscheduler(at) => match &repeat.test {
                ProbeTest::Tcp(tcp) => self.pscheduler(kept, at, tcp),
                _ => self.path(kept, at, repeat),
            },
            Target::Stamp(at) | Target::Twamp(at) => self.path(kept, at, repeat),
            Target::Ping(host) => self.path(kept, &HostPort { host: host.clone(), port: 1 }, repeat),
        };
        match found
            .and_then(|text| serde_json::from_str(&text).map_err(|error| Failed::new(Fault::Bug, error.to_string())))
        {
            Ok(report) => Attempt::Report(report),
            Err(failed) if failed.is_busy => Attempt::Busy(format!("{}: {}", kept.schedule.target, failed.why)),
            Err(failed) => Attempt::Failed(failed),
        }
    }

    fn address(&self, at: &HostPort) -> Result<std::net::SocketAddr, Failed> {
        self.resolve(at).map_err(|why| Failed::new(Fault::Path, why))
    }

    fn iperf3(&self, kept: &Kept, at: &HostPort, repeat: &Repeat) -> Result<String, Failed> {
        let ProbeTest::Tcp(tcp) = &repeat.test else {
            return Err(Refusal::new(Fault::Config, "iperf3 is tested with TCP").into());
        };
        let order = tcp_order(tcp)?;
        let report = probe::iperf3::test(self.address(at)?, &order, &Stop::default(), &mut |_| {});
        line(kept, "tcp", &report.map_err(|error| Failed::new(error.fault(), with_causes(&error)))?)
    }

    fn pscheduler(&self, kept: &Kept, at: &HostPort, tcp: &TcpProbe) -> Result<String, Failed> {
        let order = tcp_order(tcp)?;
        let is_over = || self.means.shutdown.has_begun();
        let report = lead::test((self.address(at)?, &at.host), &order, &unix_seconds_f, &is_over)?;
        line(kept, "tcp", &report)
    }

    fn path(&self, kept: &Kept, at: &HostPort, repeat: &Repeat) -> Result<String, Failed> {
        let ProbeTest::Path(path) = &repeat.test else {
            return Err(Refusal::new(Fault::Config, "a host that is no node is tested for its path").into());
        };
        let order = crate::test_orders::path_order(path);
        let address = self.address(at)?.ip();
        let routes =
            probe::task::token().and_then(|token| probe::route::one_way(address, &order, &token, &Stop::default()));
        line(kept, "path", &routes.map_err(|error| Failed::new(error.fault(), with_causes(&error)))?)
    }
}

/// The line that `longhaul probe --json` would print.
fn line<T: serde::Serialize>(kept: &Kept, test: &'static str, found: &T) -> Result<String, Failed> {
    serde_json::to_string(&Said::of("result", test, &kept.schedule.target, found))
        .map_err(|error| Failed::new(Fault::Bug, error.to_string()))
}

fn random_token() -> [u8; 16] {
    *Uuid::now_v7().as_bytes()
}
