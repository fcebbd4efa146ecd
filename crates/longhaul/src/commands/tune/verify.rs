//! `longhaul tune verify`: measures the effect of changes with a node, an iperf3 server or a disk.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use model::Exit;
use model::fault::Fault;
use model::units::BitRate;
use model::v1::probe::disk;
use model::v1::probe::tcp::{Directions, Order};
use probe::Stop;
use serde::Serialize;
use tune::plan::{Change, plan};
use tune::rule::Area;
use tune::verify::{Difference, Measured, Meter, SnapshotPlace, Step, Trial, VerifyError, trial};

use super::{AuditedHost, confirm, now};
use crate::args::TuneVerify;
use crate::commands::probe::{Target, TcpPeer, stop_on_signals};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::settings::Settings;

/// How long a NIC may take to come back after a change (autonegotiation, routes).
const RETRY_MAX: Duration = Duration::from_secs(20);
/// The pause before a failed test is repeated.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// One rule's trial, as JSON.
#[derive(Serialize)]
struct TrialReport<'a> {
    v: u8,
    event: &'static str,
    rule: &'a str,
    with: &'a str,
    /// `better`, `worse` or `noise`, by the rate.
    verdict: &'static str,
    changes: &'a [Change],
    #[serde(flatten)]
    trial: &'a Trial,
}

/// The test that measures the effect of a change.
enum TestBed<'a> {
    /// A TCP test.
    Path { target: Target, order: Order, settings: &'a Settings },
    /// A test of a disk.
    Disk { directory: PathBuf, order: disk::Order },
}

/// Measures on a test bed, for [`trial`].
struct TestBedMeter<'a> {
    test_bed: TestBed<'a>,
    stop: &'a Stop,
}

impl<'a> TestBed<'a> {
    /// The test bed that `--with` names: a directory, a node or an iperf3 server.
    fn parse(args: &TuneVerify, settings: &'a Settings) -> Result<TestBed<'a>, Failure> {
        let directory = Path::new(&args.with);
        if directory.is_dir() || args.with.starts_with(['/', '.']) {
            let order = disk::Order {
                tests: vec![disk::Test::Write, disk::Test::Read],
                modes: vec![disk::IoMode::Buffered],
                file_bytes: vec![256 << 20],
                workers: vec![args.streams],
                seconds: args.time.as_secs_f64(),
                ..disk::Order::default()
            };
            probe::disk::check(&order)?;
            return Ok(TestBed::Disk { directory: directory.to_owned(), order });
        }
        let direction = if args.reverse { Directions::Reverse } else { Directions::Forward };
        let seconds = args.time.as_secs_f64();
        let order = Order {
            streams: args.streams,
            direction,
            seconds,
            interval_s: seconds,
            block_bytes: 1 << 20,
            ..Order::default()
        };
        probe::tcp::check(&order)?;
        Ok(TestBed::Path { target: Target::parse(&args.with)?, order, settings })
    }

    /// Whether the test can show an effect of a rule of this area.
    fn can_show(&self, area: Area) -> bool {
        let of_disk = matches!(area, Area::Storage | Area::Memory);
        match self {
            TestBed::Path { .. } => area != Area::Storage,
            TestBed::Disk { .. } => of_disk,
        }
    }

    fn measure(&self, stop: &Stop) -> Result<Measured, Failure> {
        match self {
            TestBed::Path { target, order, settings } => {
                let report = TcpPeer::connect(target, settings)?.test(order, stop, &mut |_| {})?;
                let is_forward = order.direction == Directions::Forward;
                let found = report.directions.iter().find(|found| found.direction.is_forward() == is_forward);
                let found = found.ok_or_else(|| Failure::local("the report of the test lacks its direction"))?;
                let (sender, receiver) = found.cpu_s_per_gb;
                let cpu = if is_forward { sender } else { receiver };
                Ok(Measured { rate_bit_s: found.rate_bit_s as f64, cpu_s_per_gb: Some(cpu) })
            }
            TestBed::Disk { directory, order } => {
                let report = probe::disk::measure(directory, order, stop, &mut |_| {})?;
                let mut bytes = 0.0;
                let mut seconds = 0.0;
                let mut cpu_s = 0.0;
                for point in &report.points {
                    bytes += point.bytes as f64;
                    seconds += point.seconds;
                    cpu_s += point.cpu_s;
                }
                if bytes <= 0.0 || seconds <= 0.0 {
                    return Err(Failure::local(format!("the test of {} moved nothing", directory.display())));
                }
                Ok(Measured { rate_bit_s: bytes * 8.0 / seconds, cpu_s_per_gb: Some(cpu_s * 1e9 / bytes) })
            }
        }
    }
}

impl Meter for TestBedMeter<'_> {
    fn measure(&mut self) -> Result<Measured, String> {
        let since = Instant::now();
        loop {
            match self.test_bed.measure(self.stop) {
                Err(failure)
                    if failure.fault == Fault::Path && since.elapsed() < RETRY_MAX && !self.stop.is_stopped() =>
                {
                    std::thread::sleep(RETRY_PAUSE);
                }
                found => return found.map_err(|failure| failure.message),
            }
        }
    }
}

/// Measures the changes of each rule, one rule after the other.
///
/// # Errors
/// A rule is unknown, a test fails, a change cannot be made or undone, or the user interrupts.
pub fn run(
    args: &TuneVerify,
    audited: &AuditedHost<'_>,
    settings: &Settings,
    snapshot_dir: &Path,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let test_bed = TestBed::parse(args, settings)?;
    let rules = rules(args, audited, &test_bed)?;
    if rules.is_empty() {
        printer.line("nothing differs here that this user can change and this test can show; name rules to try others");
        return Ok(Exit::Done);
    }
    let duration = args.time * 2 * args.rounds * rules.len() as u32;
    if args.rules.is_empty() && !args.yes && !confirm(&question(&rules, duration))? {
        Printer::note("nothing was changed");
        return Ok(Exit::Failed);
    }
    let stop = stop_on_signals()?;
    // A test bed that does not work fails here, before anything is changed. The first test also warms up the path.
    test_bed.measure(&stop)?;
    let mut meter = TestBedMeter { test_bed, stop: &stop };
    for (rule, changes) in &rules {
        let mut report_step = |step: Step| {
            if printer.is_chatty() && !printer.is_json() {
                let side = if step.changed { "changed" } else { "as it is" };
                let rate = BitRate(step.found.rate_bit_s as u64);
                Printer::stderr_line(&format!("{rule} {}/{} {side}: {rate}", step.round, args.rounds));
            }
            !stop.is_stopped()
        };
        let found = trial(
            audited.host,
            changes,
            SnapshotPlace { dir: snapshot_dir, time: &now() },
            args.rounds,
            &mut meter,
            &mut report_step,
        );
        let found = found.map_err(|error| verify_failure(error, &stop))?;
        if printer.is_json() {
            printer.object(&TrialReport {
                v: 1,
                event: "tune_verify",
                rule,
                with: &args.with,
                verdict: verdict(&found.rate),
                changes,
                trial: &found,
            });
        } else {
            printer.line(&row(rule, &found));
        }
    }
    if !printer.is_json() {
        printer.line("all settings are restored; `longhaul tune apply RULE` changes them for good");
    }
    Ok(Exit::Done)
}

fn verify_failure(error: VerifyError, stop: &Stop) -> Failure {
    match error {
        VerifyError::Apply(error) => error.into(),
        // The test that was running when it was interrupted fails as well.
        error if stop.is_stopped() => {
            Failure { exit: Exit::Interrupted, fault: Fault::Interrupted, message: error.to_string() }
        }
        error => Failure::local(error.to_string()),
    }
}

/// The rules to try: those of the command line, or all that differ and whose effect the test can show.
fn rules(
    args: &TuneVerify,
    audited: &AuditedHost<'_>,
    test_bed: &TestBed<'_>,
) -> Result<Vec<(String, Vec<Change>)>, Failure> {
    let typed = audited.ids(&args.rules)?;
    let all = || {
        let differs = audited.audit.findings.iter().filter(|f| f.status == tune::audit::Status::Differs && f.writable);
        let mut ids: Vec<String> = Vec::new();
        for finding in differs.filter(|finding| test_bed.can_show(finding.area)) {
            if !ids.contains(&finding.id) {
                ids.push(finding.id.clone());
            }
        }
        ids
    };
    let ids = if typed.is_empty() { all() } else { typed };
    let mut rules = Vec::new();
    for id in ids {
        let only = std::slice::from_ref(&id);
        let changes = plan(audited.host, &audited.rules, &audited.audit.findings, &audited.subjects, only)?;
        if changes.is_empty() {
            Printer::note(&format!("{id} is as wanted already: there is nothing to compare it with"));
        } else {
            rules.push((id, changes));
        }
    }
    Ok(rules)
}

fn question(rules: &[(String, Vec<Change>)], duration: Duration) -> String {
    let names: Vec<&str> = rules.iter().map(|(id, _)| id.as_str()).collect();
    let seconds = duration.as_secs();
    format!(
        "Change this host and change it back, for some {seconds} s of tests, one rule after the other: {}?",
        names.join(", ")
    )
}

fn verdict(rate: &Difference) -> &'static str {
    match (rate.noise, rate.share > 0.0) {
        (true, _) => "noise",
        (false, true) => "better",
        (false, false) => "worse",
    }
}

/// `T11    better +12.5 %  1.20 Gbit/s → 1.35 Gbit/s (p 0.008); CPU s/GB here 0.500 → 0.480, noise`.
fn row(rule: &str, trial: &Trial) -> String {
    let Difference { before, after, share, p, .. } = trial.rate;
    let before = BitRate(before as u64);
    let after = BitRate(after as u64);
    let mut row =
        format!("{rule:<6} {:<6} {:+.1} %  {before} → {after} (p {p:.3})", verdict(&trial.rate), share * 100.0);
    if let Some(cpu) = &trial.cpu {
        let word =
            if cpu.noise { ", noise".to_owned() } else { format!(", {:+.0} % (p {:.3})", cpu.share * 100.0, cpu.p) };
        row.push_str(&format!("; CPU s/GB here {:.3} → {:.3}{word}", cpu.before, cpu.after));
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_shows_the_difference_or_calls_it_noise() {
        let measured = |rate: f64| Measured { rate_bit_s: rate, cpu_s_per_gb: None };
        let (before, after) = ([1.0e9, 1.1e9, 1.05e9, 1.02e9, 1.07e9], [1.3e9, 1.4e9, 1.35e9, 1.31e9, 1.33e9]);
        let trial = |before: &[f64], after: &[f64]| Trial {
            before: before.iter().copied().map(measured).collect(),
            after: after.iter().copied().map(measured).collect(),
            rate: Difference::of(before, after),
            cpu: Some(Difference::of(&[0.5; 5], &[0.5; 5])),
        };
        assert_eq!(
            row("T11", &trial(&before, &after)),
            "T11    better +26.7 %  1.05 Gbit/s → 1.33 Gbit/s (p 0.008); CPU s/GB here 0.500 → 0.500, noise"
        );
        assert_eq!(verdict(&trial(&after, &before).rate), "worse");
        assert_eq!(verdict(&trial(&before, &before).rate), "noise");
    }
}
