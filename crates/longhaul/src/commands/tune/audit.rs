//! `longhaul tune audit`: how a host stands, for scripts and for monitoring; for people it is [`super::show`].

use model::Exit;
use model::fault::Fault;
use model::v1::tune::Ask;
use serde::Serialize;
use tune::audit::{Audit, Finding, Status};
use tune::host::Live;
use tune::rule::Severity;
use wire::frame::Refusal;

use super::show::{headline, names, show, show_whole};
use super::{Sight, page};
use crate::args::TuneAudit;
use crate::commands::standing::Standing;
use crate::failure::Failure;
use crate::printer::Printer;

/// The audit as JSON.
#[derive(Serialize)]
struct Said<'a> {
    #[serde(flatten)]
    head: Head,
    rules: &'a [Finding],
}

/// Whose it is, and what for.
#[derive(Serialize)]
struct Head {
    schema: u8,
    host: SaidHost,
    target: SaidTarget,
}

impl Head {
    fn of(sight: &Sight<'_>) -> Head {
        Head { schema: 1, host: SaidHost::of(sight), target: SaidTarget::of(sight) }
    }
}

#[derive(Serialize)]
struct SaidHost {
    name: Option<String>,
    kernel: Option<String>,
    nics: Vec<SaidNic>,
    disks: Vec<String>,
}

#[derive(Serialize)]
struct SaidNic {
    name: String,
    speed_bit_s: Option<u64>,
    mtu_bytes: Option<u32>,
}

#[derive(Serialize)]
struct SaidTarget {
    /// None where nobody said it, and no NIC does.
    rate_bit_s: Option<u64>,
    /// Who said the rate: `asked`, `nic`, `unknown`.
    rate_from: &'static str,
    rtt_s: f64,
    role: &'static str,
}

impl SaidHost {
    fn of(sight: &Sight<'_>) -> SaidHost {
        let nic = |nic: &tune::subjects::Nic| SaidNic {
            name: nic.name.clone(),
            speed_bit_s: nic.speed_bit_s,
            mtu_bytes: nic.mtu_bytes,
        };
        SaidHost {
            name: sight.kernel_says("hostname"),
            kernel: sight.kernel_says("osrelease"),
            nics: sight.subjects.nics.iter().map(nic).collect(),
            disks: sight.subjects.disks.clone(),
        }
    }
}

impl SaidTarget {
    fn of(sight: &Sight<'_>) -> SaidTarget {
        let rate_from = match sight.rate_bit_s() {
            Some((_, true)) => "asked",
            Some((_, false)) => "nic",
            None => "unknown",
        };
        let rate_bit_s = sight.rate_bit_s().map(|(rate, _)| rate);
        SaidTarget { rate_bit_s, rate_from, rtt_s: sight.target.rtt_s, role: sight.target.role.word() }
    }
}

/// For another host to compare: a line that says whose audit it is, then one for each finding.
pub fn told(ask: &Ask) -> Result<Vec<String>, Refusal> {
    let wrong = |failure: Failure| Refusal::new(failure.fault, failure.message);
    let host = Live;
    let sight = Sight::asked(&host, ask).map_err(wrong)?;
    let lines = [serde_json::to_string(&Head::of(&sight))].into_iter();
    let lines = lines.chain(sight.audit.findings.iter().map(serde_json::to_string));
    lines.collect::<Result<_, _>>().map_err(|e| Refusal::new(Fault::Bug, e.to_string()))
}

/// Audits, and says what was found; with `--check` the exit code says it too, and an audit that fails is unknown.
pub fn run<'a>(
    args: &TuneAudit,
    look: impl FnOnce() -> Result<Sight<'a>, Failure>,
    printer: &Printer,
) -> Result<u8, Failure> {
    let sight = look().and_then(|mut sight| {
        let ignored = sight.ids(&args.ignore)?;
        sight.audit.findings.retain(|finding| !ignored.contains(&finding.id));
        Ok(sight)
    });
    let written = sight.and_then(|sight| write_page(args, &sight).map(|()| sight));
    if args.check {
        let (standing, line) = match &written {
            Ok(sight) => judged(&sight.audit),
            Err(failure) => (Standing::Unknown, failure.message.clone()),
        };
        printer.line(&format!("{} - {line}", standing.word()));
        return Ok(standing as u8);
    }
    let sight = written?;
    match printer.is_json() {
        true => printer.object(&Said { head: Head::of(&sight), rules: &sight.audit.findings }),
        false if !args.rules.is_empty() => {
            let ids = sight.ids(&args.rules)?;
            let its: Vec<&Finding> = sight.audit.findings.iter().filter(|finding| ids.contains(&finding.id)).collect();
            show_whole(&its, printer);
        }
        false => show(&sight, args.all, printer),
    }
    Ok(Exit::Done as u8)
}

fn write_page(args: &TuneAudit, sight: &Sight<'_>) -> Result<(), Failure> {
    let Some(file) = &args.html else { return Ok(()) };
    let failed = |e| Failure {
        exit: Exit::Storage,
        fault: Fault::Storage,
        message: format!("cannot write {}: {e}", file.display()),
    };
    std::fs::write(file, page::page(&headline(sight), &sight.audit)).map_err(failed)
}

/// What a monitoring system is told.
fn judged(audit: &Audit) -> (Standing, String) {
    let by_worst = match audit.worst() {
        Some(Severity::High) => Standing::Critical,
        Some(Severity::Medium | Severity::Low) => Standing::Warning,
        Some(Severity::Info) | None => Standing::Well,
    };
    let weighty = |finding: &&Finding| finding.status == Status::Unknown && finding.severity >= Severity::Medium;
    // What is known to be wrong does not wait for what only root may read.
    let standing = match (by_worst, audit.findings.iter().find(weighty)) {
        (Standing::Well, Some(_)) => Standing::Unknown,
        (known, _) => known,
    };
    let wrong = audit.findings.iter().filter(|f| f.status == Status::Differs && Some(f.severity) == audit.worst());
    let named = names(&wrong.collect::<Vec<_>>());
    let named = if named.is_empty() { named } else { format!(" ({named})") };
    let (differ, unknown) = (audit.count(Status::Differs), audit.count(Status::Unknown));
    (standing, format!("{differ} differ{named}, {unknown} unknown | differs={differ} unknown={unknown}"))
}
