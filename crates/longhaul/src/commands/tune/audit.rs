//! `longhaul tune audit`: how a host stands, for people on one screen, for scripts, and for monitoring.

use std::collections::BTreeMap;
use std::io::IsTerminal;

use model::Exit;
use model::fault::Fault;
use model::units::BitRate;
use serde::Serialize;
use tune::audit::{Audit, Finding, Status};
use tune::rule::{Area, Severity};

use super::{Sight, page};
use crate::args::TuneAudit;
use crate::commands::standing::Standing;
use crate::failure::Failure;
use crate::printer::Printer;

/// Columns of a line on a terminal; into a file or a pipe lines go whole.
const LINE_COLUMNS: usize = 150;
/// Ids and subjects that one line of unknown ones names.
const NAMED_MAX: usize = 16;

/// The audit as JSON.
#[derive(Serialize)]
struct Said<'a> {
    schema: u8,
    host: SaidHost,
    target: SaidTarget,
    rules: &'a [Finding],
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
            name: kernel_says(sight, "hostname"),
            kernel: kernel_says(sight, "osrelease"),
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

fn kernel_says(sight: &Sight<'_>, what: &str) -> Option<String> {
    tune::host::sysctl(sight.host, &format!("kernel.{what}"), None).ok()
}

/// Audits, and says what was found; with `--check` the exit code says it too, and an audit that fails is unknown.
pub fn run<'a>(
    args: &TuneAudit,
    look: impl FnOnce() -> Result<Sight<'a>, Failure>,
    printer: &Printer,
) -> Result<u8, Failure> {
    let sight = look();
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
        true => printer.object(&Said {
            schema: 1,
            host: SaidHost::of(&sight),
            target: SaidTarget::of(&sight),
            rules: &sight.audit.findings,
        }),
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

/// What was looked at, and what for.
pub fn headline(sight: &Sight<'_>) -> String {
    let host = SaidHost::of(sight);
    let nic = |nic: &SaidNic| match nic.speed_bit_s {
        Some(speed) => format!("{} ({})", nic.name, BitRate(speed)),
        None => format!("{} (speed unknown)", nic.name),
    };
    let mut parts = vec![host.name.unwrap_or_else(|| "this host".into())];
    parts.extend(host.kernel.map(|kernel| format!("Linux {kernel}")));
    parts.extend(host.nics.iter().map(nic));
    parts.extend(host.disks);
    let rate = sight.rate_bit_s().map_or("an unknown rate (say --rate)".into(), |(rate, _)| BitRate(rate).to_string());
    let rtt = (sight.target.rtt_s * 1e6).round() / 1e3;
    format!("{}; for {rate} over {rtt} ms, role {}", parts.join(", "), sight.target.role.word())
}

/// For people: what differs by area, the worst first; what is unknown by reason; counts.
fn show(sight: &Sight<'_>, all: bool, printer: &Printer) {
    let findings = &sight.audit.findings;
    printer.line(&headline(sight));
    let differs: Vec<&Finding> = findings.iter().filter(|finding| finding.status == Status::Differs).collect();
    for (area, group) in by_area(&differs) {
        printer.line(&format!("\n{}", word(area)));
        for finding in group {
            show_one(finding, printer);
        }
    }
    let unknown: Vec<&Finding> = findings.iter().filter(|finding| finding.status == Status::Unknown).collect();
    if !unknown.is_empty() {
        printer.line("\nunknown");
    }
    for (why, group) in by_reason(&unknown) {
        printer.line(&format!("  {}: {why}", names(&group)));
    }
    if all {
        show_rest(findings, printer);
    }
    printer.line(&format!("\n{}", counts(&sight.audit)));
}

/// What is as wanted, and what is not for this host.
fn show_rest(findings: &[Finding], printer: &Printer) {
    for (status, head) in [(Status::Ok, "as wanted"), (Status::NotApplicable, "not for this host")] {
        printer.line(&format!("\n{head}"));
        for finding in findings.iter().filter(|finding| finding.status == status) {
            let what = finding.note.as_deref().or(finding.observed.as_deref()).unwrap_or_default();
            printer.line(&cut(format!("  {:<14} {}: {what}", name(finding), finding.title)));
        }
    }
}

fn show_one(finding: &Finding, printer: &Printer) {
    let observed = finding.observed.as_deref().unwrap_or("–");
    let wanted = finding.wanted.as_deref().unwrap_or("–");
    let (severity, name) = (severity(finding.severity), name(finding));
    let why = first_sentence(&finding.why);
    printer.line(&cut(format!("  {severity:<6} {name:<14} {}: {observed} → {wanted}. {why}", finding.title)));
    if let Some(conflict) = &finding.conflict {
        printer.line(&cut(format!("{:24}others: {}", "", one_line(&conflict.other))));
        printer.line(&cut(format!("{:24}ours:   {}", "", one_line(&conflict.ours))));
    }
}

/// A rule, and the NIC or disk.
fn name(finding: &Finding) -> String {
    match &finding.subject {
        Some(subject) => format!("{} {subject}", finding.id),
        None => finding.id.clone(),
    }
}

fn names(findings: &[&Finding]) -> String {
    let mut names: Vec<String> = findings.iter().take(NAMED_MAX).map(|finding| name(finding)).collect();
    if findings.len() > NAMED_MAX {
        names.push(format!("{} more", findings.len() - NAMED_MAX));
    }
    names.join(", ")
}

/// Areas in the order of their worst, as findings come worst first.
pub fn by_area<'a>(findings: &[&'a Finding]) -> Vec<(Area, Vec<&'a Finding>)> {
    let mut areas: Vec<(Area, Vec<&Finding>)> = Vec::new();
    for &finding in findings {
        match areas.iter_mut().find(|(area, _)| *area == finding.area) {
            Some((_, group)) => group.push(finding),
            None => areas.push((finding.area, vec![finding])),
        }
    }
    areas
}

fn by_reason<'a>(findings: &[&'a Finding]) -> BTreeMap<&'a str, Vec<&'a Finding>> {
    let mut reasons: BTreeMap<&str, Vec<&Finding>> = BTreeMap::new();
    for &finding in findings {
        reasons.entry(finding.note.as_deref().unwrap_or("nobody can say")).or_default().push(finding);
    }
    reasons
}

/// `12 differ (3 high, 9 low), 20 unknown, 80 as wanted, 33 not for this host`.
pub fn counts(audit: &Audit) -> String {
    let of = |severity: Severity| {
        let is = |f: &&Finding| f.status == Status::Differs && f.severity == severity;
        audit.findings.iter().filter(is).count()
    };
    let each = [Severity::High, Severity::Medium, Severity::Low, Severity::Info].map(|s| (of(s), severity(s)));
    let each: Vec<String> = each.iter().filter(|(n, _)| *n > 0).map(|(n, word)| format!("{n} {word}")).collect();
    let each = if each.is_empty() { String::new() } else { format!(" ({})", each.join(", ")) };
    let count = |status| audit.count(status);
    format!(
        "{} differ{each}, {} unknown, {} as wanted, {} not for this host",
        count(Status::Differs),
        count(Status::Unknown),
        count(Status::Ok),
        count(Status::NotApplicable)
    )
}

pub fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::High => "high",
        Severity::Medium => "medium",
        Severity::Low => "low",
        Severity::Info => "info",
    }
}

pub fn word(area: Area) -> &'static str {
    match area {
        Area::Tcp => "TCP",
        Area::Queue => "queues",
        Area::Nic => "network cards",
        Area::Processor => "processors",
        Area::Memory => "memory",
        Area::Storage => "storage",
        Area::Host => "host",
    }
}

/// The table's texts have line breaks where its lines end.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn first_sentence(text: &str) -> String {
    let text = one_line(text);
    text.find(". ").map_or(text.clone(), |end| text[..=end].to_owned())
}

/// So much of a line as a terminal has room for.
fn cut(line: String) -> String {
    match std::io::stdout().is_terminal() {
        true => shortened(line),
        false => line,
    }
}

fn shortened(line: String) -> String {
    if line.chars().count() <= LINE_COLUMNS {
        return line;
    }
    let kept: String = line.chars().take(LINE_COLUMNS - 1).collect();
    format!("{}…", kept.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_sentence_is_enough() {
        assert_eq!(first_sentence("\nA window of 6.3 MB\nis small. It binds.\n"), "A window of 6.3 MB is small.");
        assert_eq!(first_sentence("One only."), "One only.");
    }

    #[test]
    fn long_lines_are_cut_between_letters() {
        let short = shortened("ü".repeat(LINE_COLUMNS + 5));
        assert_eq!(short.chars().count(), LINE_COLUMNS);
        assert!(short.ends_with('…'));
        assert_eq!(shortened("short".into()), "short");
    }
}
