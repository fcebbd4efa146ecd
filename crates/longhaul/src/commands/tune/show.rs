//! An audit on one screen, for people: what differs by area, the worst first, what is unknown by reason, and counts.

use std::collections::BTreeMap;
use std::io::IsTerminal;

use model::units::BitRate;
use tune::audit::{Audit, Finding, Status};
use tune::rule::{Area, Severity};
use tune::subjects::Nic;

use super::Sight;
use super::audit::kernel_says;
use crate::printer::Printer;

/// Columns of a line on a terminal; into a file or a pipe lines go whole.
const LINE_COLUMNS: usize = 150;
/// Ids and subjects that one line of unknown ones names.
const NAMED_MAX: usize = 16;

/// What was looked at, and what for.
pub fn headline(sight: &Sight<'_>) -> String {
    let nic = |nic: &Nic| match nic.speed_bit_s {
        Some(speed) => format!("{} ({})", nic.name, BitRate(speed)),
        None => format!("{} (speed unknown)", nic.name),
    };
    let mut parts = vec![kernel_says(sight, "hostname").unwrap_or_else(|| "this host".into())];
    parts.extend(kernel_says(sight, "osrelease").map(|release| format!("Linux {release}")));
    parts.extend(sight.subjects.nics.iter().map(nic));
    parts.extend(sight.subjects.disks.iter().cloned());
    let rate = sight.rate_bit_s().map_or("an unknown rate (say --rate)".into(), |(rate, _)| BitRate(rate).to_string());
    let rtt = (sight.target.rtt_s * 1e6).round() / 1e3;
    format!("{}; for {rate} over {rtt} ms, role {}", parts.join(", "), sight.target.role.word())
}

/// For people: what differs by area, the worst first; what is unknown by reason; counts.
pub fn show(sight: &Sight<'_>, all: bool, printer: &Printer) {
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

/// Rules by their names, and how many more there are.
pub fn names(findings: &[&Finding]) -> String {
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

/// Its word.
pub fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::High => "high",
        Severity::Medium => "medium",
        Severity::Low => "low",
        Severity::Info => "info",
    }
}

/// Its word, as a heading.
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
