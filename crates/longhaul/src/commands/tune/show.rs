//! An audit as text on one screen: the differences by area, the worst first; the unknown settings by reason; counts.

use std::collections::BTreeMap;
use std::io::IsTerminal;

use model::units::{BitRate, Bytes};
use tune::audit::{Audit, Finding, Status};
use tune::rule::{Area, Confidence, Persist, Severity};
use tune::subjects::Nic;

use super::AuditedHost;
use crate::printer::Printer;

/// The least number of findings that is shown, however small the terminal is.
const SHOWN_MIN: usize = 8;
/// The end of notes that ask for the rate.
const GIVE_RATE: &str = "give --rate";
/// The most ids and subjects that a line of unknown rules names.
const NAMED_MAX: usize = 16;

/// The host, and the target that it was audited for.
pub fn headline(audited: &AuditedHost<'_>) -> String {
    let nic = |nic: &Nic| match nic.speed_bit_s {
        Some(speed) => format!("{} ({})", nic.name, BitRate(speed)),
        None => format!("{} (speed unknown)", nic.name),
    };
    let mut parts = vec![audited.kernel_value("hostname").unwrap_or_else(|| "this host".into())];
    parts.extend(audited.kernel_value("osrelease").map(|release| format!("Linux {release}")));
    parts.extend(audited.subjects.nics.iter().map(nic));
    parts.extend(audited.subjects.disks.iter().cloned());
    let rate = audited.rate_bit_s();
    let rate = rate.map_or("an unknown rate (give --rate)".into(), |(rate, _)| BitRate(rate).to_string());
    let rtt = (audited.target.rtt_s * 1e6).round() / 1e3;
    format!("{}; for {rate} over {rtt} ms, role {}", parts.join(", "), audited.target.role.word())
}

/// Prints an audit as text: the differences by area, the worst first; the unknown settings by reason; counts. On a terminal no more
/// is printed than fits, unless `all` is set.
pub fn show(audited: &AuditedHost<'_>, all: bool, printer: &Printer) {
    let findings = &audited.audit.findings;
    let screen = Screen::of_stdout().filter(|_| !all);
    printer.line(&headline(audited));
    let differs: Vec<&Finding> = findings.iter().filter(|finding| finding.status == Status::Differs).collect();
    let unknown: Vec<&Finding> = findings.iter().filter(|finding| finding.status == Status::Unknown).collect();
    let reasons = by_reason(&unknown);
    // Headings, reasons, the first and the last lines take lines as well.
    let other_lines = by_area(&differs).len() * 2 + reasons.len() + 6;
    let lines_left = screen.map_or(usize::MAX, |screen| screen.lines.saturating_sub(other_lines).max(SHOWN_MIN));
    let shown = &differs[..differs.len().min(lines_left)];
    for (area, group) in by_area(shown) {
        printer.line(&format!("\n{}", word(area)));
        for finding in group {
            show_one(finding, all, screen, printer);
        }
    }
    if shown.len() < differs.len() {
        printer.line(&format!("\n{} more differ, none of them worse: --all lists them", differs.len() - shown.len()));
    }
    if !unknown.is_empty() {
        printer.line("\nunknown");
    }
    for (why, group) in reasons {
        printer.line(&cut(format!("  {}: {why}", names(&group)), screen));
    }
    if all {
        show_rest(findings, screen, printer);
    }
    printer.line(&format!("\n{}; `tune audit RULE` shows all about one rule", counts(&audited.audit)));
}

/// Prints the findings of some rules in full.
pub fn show_in_full(findings: &[&Finding], printer: &Printer) {
    for finding in findings {
        let Finding { title, why, source, command, .. } = finding;
        printer.line(&format!("{} {title}", name(finding)));
        let status = match (finding.status, &finding.note) {
            (Status::Ok, _) => "as wanted".to_owned(),
            (Status::Differs, _) => format!("not as wanted, severity {}", severity(finding.severity)),
            (Status::Unknown, note) => format!("unknown: {}", note.as_deref().unwrap_or("the reason is not known")),
            (Status::NotApplicable, note) => format!("not for this host: {}", note.as_deref().unwrap_or("–")),
        };
        let confidence = confidence(finding.confidence);
        let lines = [
            ("", status),
            ("observed", observed(finding)),
            ("wanted", wanted(finding)),
            ("why", one_line(why)),
            ("source", format!("{} ({confidence})", one_line(source))),
            ("command", command.clone()),
            ("kept by", persist(finding.persist).into()),
        ];
        let conflict =
            finding.conflict.iter().flat_map(|c| [("others", one_line(&c.other)), ("ours", one_line(&c.ours))]);
        for (head, text) in lines.into_iter().chain(conflict) {
            printer.line(&format!("  {head:<9} {text}"));
        }
    }
}

/// The observed value, with its unit.
pub fn observed(finding: &Finding) -> String {
    measured(finding.observed.as_deref(), finding.unit.as_deref())
}

/// The wanted value, with its unit.
pub fn wanted(finding: &Finding) -> String {
    measured(finding.wanted.as_deref(), finding.unit.as_deref())
}

/// A value with its unit. A large number of bytes or bits per second is also shown rounded.
pub fn measured(value: Option<&str>, unit: Option<&str>) -> String {
    let Some(value) = value else { return "–".into() };
    // `at least 2147483647` ends with its number; a word has no unit.
    let number = value.rsplit(' ').next().and_then(|last| last.parse::<f64>().ok());
    match (number, unit) {
        (Some(number), Some("bytes")) if number >= 10_000.0 => format!("{value} bytes ({})", Bytes(number as u64)),
        (Some(number), Some("bit/s")) if number >= 10_000.0 => format!("{value} bit/s ({})", BitRate(number as u64)),
        (Some(_), Some(unit)) => format!("{value} {unit}"),
        _ => value.to_owned(),
    }
}

/// The confidence in a recommendation, in words.
pub fn confidence(confidence: Confidence) -> &'static str {
    match confidence {
        Confidence::Measured => "measured",
        Confidence::Vendor => "stated by the vendor",
        Confidence::Field => "practice of operators",
        Confidence::Derived => "follows from how the parts work",
    }
}

/// How a change survives a reboot.
pub fn persist(persist: Persist) -> &'static str {
    match persist {
        Persist::SysctlD => "a line in sysctl.d",
        Persist::Unit => "a unit of systemd",
        Persist::Udev => "a rule of udev",
        Persist::Manual => "nothing: by hand",
    }
}

/// Prints the rules that are as wanted, and those that do not apply to this host.
fn show_rest(findings: &[Finding], screen: Option<Screen>, printer: &Printer) {
    for (status, head) in [(Status::Ok, "as wanted"), (Status::NotApplicable, "not for this host")] {
        printer.line(&format!("\n{head}"));
        for finding in findings.iter().filter(|finding| finding.status == status) {
            let what = finding.note.as_deref().or(finding.observed.as_deref()).unwrap_or_default();
            printer.line(&cut(format!("  {:<14} {}: {what}", name(finding), finding.title), screen));
        }
    }
}

fn show_one(finding: &Finding, all: bool, screen: Option<Screen>, printer: &Printer) {
    let observed = observed(finding);
    let wanted = wanted(finding);
    let severity = severity(finding.severity);
    let name = name(finding);
    let why = first_sentence(&finding.why);
    let disputed = if finding.conflict.is_some() && !all { " (the field disagrees)" } else { "" };
    let note = finding.note.as_ref().map_or(String::new(), |note| format!(" ({note})"));
    let line = format!("  {severity:<6} {name:<14} {}: {observed} → {wanted}{disputed}{note}. {why}", finding.title);
    printer.line(&cut(line, screen));
    if let Some(conflict) = finding.conflict.as_ref().filter(|_| all) {
        printer.line(&format!("{:24}others: {}", "", one_line(&conflict.other)));
        printer.line(&format!("{:24}ours:   {}", "", one_line(&conflict.ours)));
    }
}

/// The id of the rule, and the NIC or disk, if the finding is about one.
fn name(finding: &Finding) -> String {
    match &finding.subject {
        Some(subject) => format!("{} {subject}", finding.id),
        None => finding.id.clone(),
    }
}

/// The names of the first findings, and how many more there are.
pub fn names(findings: &[&Finding]) -> String {
    let mut names: Vec<String> = findings.iter().take(NAMED_MAX).map(|finding| name(finding)).collect();
    if findings.len() > NAMED_MAX {
        names.push(format!("{} more", findings.len() - NAMED_MAX));
    }
    names.join(", ")
}

/// The findings by area. Findings come worst first, so the area with the worst finding comes first.
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
        let note = finding.note.as_deref().unwrap_or("the reason is not known");
        // All findings that depend on the rate have the same remedy.
        let note = if note.ends_with(GIVE_RATE) { GIVE_RATE } else { note };
        reasons.entry(note).or_default().push(finding);
    }
    reasons
}

/// `12 differ (3 high, 9 low), 20 unknown, 80 as wanted, 33 not for this host`.
pub fn counts(audit: &Audit) -> String {
    let differing = |severity: Severity| {
        let counts_in = |f: &&Finding| f.status == Status::Differs && f.severity == severity;
        audit.findings.iter().filter(counts_in).count()
    };
    let each = [Severity::High, Severity::Medium, Severity::Low, Severity::Info].map(|s| (differing(s), severity(s)));
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

/// The word for a severity.
pub fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::High => "high",
        Severity::Medium => "medium",
        Severity::Low => "low",
        Severity::Info => "info",
    }
}

/// The word for an area, as a heading.
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

/// A text without the line breaks that it has in `rules.toml`.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn first_sentence(text: &str) -> String {
    let text = one_line(text);
    text.find(". ").map_or(text.clone(), |end| text[..=end].to_owned())
}

/// The size of a terminal.
#[derive(Clone, Copy)]
struct Screen {
    lines: usize,
    columns: usize,
}

impl Screen {
    /// The terminal of stdout; none where stdout is not a terminal.
    fn of_stdout() -> Option<Screen> {
        let stdout = std::io::stdout();
        let size = stdout.is_terminal().then(|| rustix::termios::tcgetwinsize(&stdout).ok()).flatten()?;
        let known_or = |reported: u16, default: usize| if reported == 0 { default } else { usize::from(reported) };
        Some(Screen { lines: known_or(size.ws_row, 24), columns: known_or(size.ws_col, 80) })
    }
}

/// Cuts a line to the width of the terminal. Lines for a file or a pipe stay whole.
fn cut(line: String, screen: Option<Screen>) -> String {
    match screen {
        Some(Screen { columns, .. }) if line.chars().count() > columns => {
            let kept: String = line.chars().take(columns.saturating_sub(1)).collect();
            format!("{}…", kept.trim_end())
        }
        _ => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_cut_after_its_first_sentence() {
        assert_eq!(first_sentence("\nA window of 6.3 MB\nis small. It binds.\n"), "A window of 6.3 MB is small.");
        assert_eq!(first_sentence("One only."), "One only.");
    }

    #[test]
    fn numbers_have_their_units() {
        assert_eq!(measured(Some("at least 2147483647"), Some("bytes")), "at least 2147483647 bytes (2.00 GiB)");
        assert_eq!(measured(Some("1500"), Some("bytes")), "1500 bytes");
        assert_eq!(
            (measured(Some("unlimited"), Some("bytes")), measured(None, Some("s"))),
            ("unlimited".into(), "–".into())
        );
    }

    #[test]
    fn long_lines_are_cut_to_the_width_of_the_terminal() {
        let screen = Some(Screen { lines: 24, columns: 80 });
        let short = cut("ü".repeat(85), screen);
        assert_eq!(short.chars().count(), 80);
        assert!(short.ends_with('…'));
        assert_eq!((cut("short".into(), screen), cut("ü".repeat(85), None).chars().count()), ("short".into(), 85));
    }
}
