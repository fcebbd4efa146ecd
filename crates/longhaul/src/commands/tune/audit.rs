//! `longhaul tune audit`: the audit of a host as JSON and for monitoring systems. [`super::show`] prints it as text.

use model::fault::Fault;
use model::v1::tune::AuditRequest;
use model::{Exit, Refusal};
use serde::Serialize;
use tune::audit::{Audit, Finding, Status};
use tune::host::Live;
use tune::rule::Severity;

use super::show::{headline, names, show, show_in_full};
use super::{AuditedHost, page};
use crate::args::TuneAudit;
use crate::commands::check_status::CheckStatus;
use crate::failure::Failure;
use crate::printer::Printer;

/// The audit as JSON.
#[derive(Serialize)]
struct AuditReport<'a> {
    #[serde(flatten)]
    head: AuditHead,
    rules: &'a [Finding],
}

/// The host of an audit, and the target it was audited for.
#[derive(Serialize)]
struct AuditHead {
    schema: u8,
    host: HostReport,
    target: TargetReport,
}

impl AuditHead {
    fn of(audited: &AuditedHost<'_>) -> AuditHead {
        AuditHead { schema: 1, host: HostReport::of(audited), target: TargetReport::of(audited) }
    }
}

#[derive(Serialize)]
struct HostReport {
    name: Option<String>,
    kernel: Option<String>,
    nics: Vec<NicReport>,
    disks: Vec<String>,
}

#[derive(Serialize)]
struct NicReport {
    name: String,
    speed_bit_s: Option<u64>,
    mtu_bytes: Option<u32>,
}

#[derive(Serialize)]
struct TargetReport {
    /// None where the user names no rate, and no NIC has one.
    rate_bit_s: Option<u64>,
    /// Where the rate comes from: `asked`, `nic`, `unknown`.
    rate_from: &'static str,
    rtt_s: f64,
    role: &'static str,
}

impl HostReport {
    fn of(audited: &AuditedHost<'_>) -> HostReport {
        let nic = |nic: &tune::subjects::Nic| NicReport {
            name: nic.name.clone(),
            speed_bit_s: nic.speed_bit_s,
            mtu_bytes: nic.mtu_bytes,
        };
        HostReport {
            name: audited.kernel_value("hostname"),
            kernel: audited.kernel_value("osrelease"),
            nics: audited.subjects.nics.iter().map(nic).collect(),
            disks: audited.subjects.disks.clone(),
        }
    }
}

impl TargetReport {
    fn of(audited: &AuditedHost<'_>) -> TargetReport {
        let rate_from = match audited.rate_bit_s() {
            Some((_, true)) => "asked",
            Some((_, false)) => "nic",
            None => "unknown",
        };
        let rate_bit_s = audited.rate_bit_s().map(|(rate, _)| rate);
        TargetReport { rate_bit_s, rate_from, rtt_s: audited.target.rtt_s, role: audited.target.role.word() }
    }
}

/// The audit of this host as lines of JSON, for another host to compare: the host and the target, then one line for each
/// finding.
///
/// # Errors
/// The query has a role, rate or round trip that does not exist, or the rules cannot be read.
pub fn audit_lines(ask: &AuditRequest) -> Result<Vec<String>, Refusal> {
    let wrong = |failure: Failure| Refusal::new(failure.fault, failure.message);
    let host = Live;
    let audited = AuditedHost::for_query(&host, ask).map_err(wrong)?;
    let lines = [serde_json::to_string(&AuditHead::of(&audited))].into_iter();
    let lines = lines.chain(audited.audit.findings.iter().map(serde_json::to_string));
    lines.collect::<Result<_, _>>().map_err(|e| Refusal::new(Fault::Bug, e.to_string()))
}

/// Audits a host and prints the findings. With `--check` the exit code is that of a monitoring plug-in, and an audit that fails
/// is unknown.
///
/// # Errors
/// Without `--check`: the audit fails, a rule is unknown, or the page cannot be written.
pub fn run<'a>(
    args: &TuneAudit,
    audit: impl FnOnce() -> Result<AuditedHost<'a>, Failure>,
    printer: &Printer,
) -> Result<u8, Failure> {
    let audited = audit().and_then(|mut audited| {
        let ignored = audited.ids(&args.ignore)?;
        audited.audit.findings.retain(|finding| !ignored.contains(&finding.id));
        Ok(audited)
    });
    let result = audited.and_then(|audited| write_page(args, &audited).map(|()| audited));
    if args.check {
        let (status, line) = match &result {
            Ok(audited) => status_line(&audited.audit),
            Err(failure) => (CheckStatus::Unknown, failure.message.clone()),
        };
        printer.line(&format!("{} - {line}", status.word()));
        return Ok(status as u8);
    }
    let audited = result?;
    if printer.is_json() {
        printer.object(&AuditReport { head: AuditHead::of(&audited), rules: &audited.audit.findings });
    } else if args.rules.is_empty() {
        show(&audited, args.all, printer);
    } else {
        let ids = audited.ids(&args.rules)?;
        let findings = audited.audit.findings.iter().filter(|finding| ids.contains(&finding.id));
        show_in_full(&findings.collect::<Vec<_>>(), printer);
    }
    Ok(Exit::Done as u8)
}

fn write_page(args: &TuneAudit, audited: &AuditedHost<'_>) -> Result<(), Failure> {
    let Some(file) = &args.html else { return Ok(()) };
    let failed = |e| Failure {
        exit: Exit::Storage,
        fault: Fault::Storage,
        message: format!("cannot write {}: {e}", file.display()),
    };
    std::fs::write(file, page::page(&headline(audited), &audited.audit)).map_err(failed)
}

/// The status and the line for a monitoring system.
fn status_line(audit: &Audit) -> (CheckStatus, String) {
    let by_worst = match audit.worst() {
        Some(Severity::High) => CheckStatus::Critical,
        Some(Severity::Medium | Severity::Low) => CheckStatus::Warning,
        Some(Severity::Info) | None => CheckStatus::Well,
    };
    let is_important = |finding: &&Finding| finding.status == Status::Unknown && finding.severity >= Severity::Medium;
    // A known difference has precedence over findings that only root could read.
    let status = match (by_worst, audit.findings.iter().find(is_important)) {
        (CheckStatus::Well, Some(_)) => CheckStatus::Unknown,
        (known, _) => known,
    };
    let wrong = audit.findings.iter().filter(|f| f.status == Status::Differs && Some(f.severity) == audit.worst());
    let named = names(&wrong.collect::<Vec<_>>());
    let named = if named.is_empty() { named } else { format!(" ({named})") };
    let differ = audit.count(Status::Differs);
    let unknown = audit.count(Status::Unknown);
    (status, format!("{differ} differ{named}, {unknown} unknown | differs={differ} unknown={unknown}"))
}
