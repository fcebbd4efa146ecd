//! The audit: every rule, on every subject that it applies to, with its result.

use std::path::Path;

use model::units::BitRate;

pub use crate::finding::{Finding, Status};

use crate::facts;
use crate::host::{Host, HostError, HostResult, sysctl};
use crate::judge::{Judgement, judge, wanted};
use crate::plan;
use crate::rule::{ChangeMethod, Condition, Nature, Read, Rule, Severity};
use crate::subjects::{Subject, Subjects};
use crate::target::{ResolveContext, Target};

/// The audit of a host.
#[derive(Clone, Debug, PartialEq)]
pub struct Audit {
    /// The worst first: settings that differ, then unknown ones, by severity; then the rest, in the order of the rules.
    pub findings: Vec<Finding>,
}

impl Audit {
    /// Audits a host.
    pub fn of(host: &dyn Host, rules: &[Rule], target: &Target, subjects: &Subjects) -> Audit {
        // This starts a program, and many rules need the result.
        let physical = facts::is_physical(host).map_err(|why| why.to_string());
        let audit = AuditContext { host, target, subjects, physical: &physical };
        let mut findings: Vec<Finding> = rules.iter().flat_map(|rule| apply_to_all(audit, rule)).collect();
        plan::merge_commands(host, rules, &mut findings, subjects);
        findings.sort_by_key(|finding| (rank(finding.status), std::cmp::Reverse(finding.severity)));
        Audit { findings }
    }

    /// The number of findings with this status.
    pub fn count(&self, status: Status) -> usize {
        self.findings.iter().filter(|finding| finding.status == status).count()
    }

    /// The highest severity of the findings that differ; none where none does.
    pub fn worst(&self) -> Option<Severity> {
        let differs = self.findings.iter().filter(|finding| finding.status == Status::Differs);
        differs.map(|finding| finding.severity).max()
    }
}

fn rank(status: Status) -> u8 {
    match status {
        Status::Differs => 0,
        Status::Unknown => 1,
        Status::Ok => 2,
        Status::NotApplicable => 3,
    }
}

/// The host, the target and the subjects that all rules of an audit are judged by.
#[derive(Clone, Copy)]
struct AuditContext<'a> {
    host: &'a dyn Host,
    target: &'a Target,
    subjects: &'a Subjects,
    /// Whether the host is a physical machine, or why that is not known.
    physical: &'a Result<bool, String>,
}

/// Applies a rule to each NIC, each disk, or the host.
fn apply_to_all(audit: AuditContext<'_>, rule: &Rule) -> Vec<Finding> {
    let subjects = audit.subjects;
    let of_nic = rule.read.is_of_nic();
    let of_disk = rule.read.is_of_disk();
    let on: Vec<Subject<'_>> = match (of_nic, of_disk) {
        (true, _) => subjects.nics.iter().map(Subject::Nic).collect(),
        (_, true) => subjects.disks.iter().map(|disk| Subject::Disk(disk)).collect(),
        (false, false) => vec![Subject::Host(subjects.fastest())],
    };
    if on.is_empty() {
        let what = if of_nic { "NIC" } else { "disk" };
        return vec![unjudged(rule, None, Status::NotApplicable, Some(format!("no {what} is audited")))];
    }
    on.into_iter().map(|subject| apply_to(audit, rule, subject)).collect()
}

fn unjudged(rule: &Rule, subject: Option<String>, status: Status, note: Option<String>) -> Finding {
    Finding {
        id: rule.id.clone(),
        title: rule.title.clone(),
        area: rule.area,
        subject,
        observed: None,
        wanted: None,
        unit: rule.unit.clone(),
        value: None,
        status,
        note,
        severity: rule.severity,
        why: rule.why.clone(),
        source: rule.source.clone(),
        confidence: rule.confidence,
        conflict: rule.conflict.clone(),
        command: rule.command.clone(),
        persist: rule.persist,
        writable: false,
        set: rule.set,
        nature: rule.nature,
    }
}

fn apply_to(audit: AuditContext<'_>, rule: &Rule, subject: Subject<'_>) -> Finding {
    let AuditContext { host, target, .. } = audit;
    let name = subject.name();
    let undecided = |status, note| Finding {
        command: fill(&rule.command, None, "", subject),
        ..unjudged(rule, name.clone(), status, Some(note))
    };
    for condition in &rule.when {
        match holds(audit, condition, subject) {
            Ok(true) => {}
            Ok(false) => return undecided(Status::NotApplicable, format!("the rule is for {condition}")),
            Err(why) => {
                return undecided(
                    Status::Unknown,
                    format!("whether the rule applies to this host is not known: {why}"),
                );
            }
        }
    }
    let named = |what: &str| facts::number(host, what, subject);
    let context = ResolveContext { nic_bit_s: subject.speed(), named: &named };
    let goal = wanted(&rule.want, target, context);
    let is_ok = |value: &str| judge(value, &rule.want, target, context) == Judgement::Ok;
    let observed = read(audit, &rule.read, subject, &is_ok).and_then(|value| checked_count(value, rule.nature));
    let (status, note) = match (&observed, &goal) {
        (Err(HostError::Absent), _) => (Status::NotApplicable, Some(HostError::Absent.to_string())),
        (Err(why), _) => (Status::Unknown, Some(why.to_string())),
        (Ok(_), Err(why)) => (Status::Unknown, Some(why.clone())),
        (Ok(observed), Ok(_)) => match judge(observed, &rule.want, target, context) {
            Judgement::Ok => (Status::Ok, None),
            Judgement::Differs => (Status::Differs, None),
            Judgement::Unknown(why) => (Status::Unknown, Some(why)),
        },
    };
    let value = goal.as_ref().ok().and_then(|goal| goal.value.clone());
    // The command for a setting of several numbers sets all of them, where the rule is about one.
    let all_fields = match &rule.read {
        Read::Sysctl { name, field: Some(_) } => sysctl(host, &subject.fill(name), None).unwrap_or_default(),
        _ => observed.as_deref().unwrap_or_default().to_owned(),
    };
    let command = fill(&rule.command, value.as_deref(), &all_fields, subject);
    let manual_reason = if status == Status::Differs { manual_reason(host, &rule.read, subject) } else { None };
    let set = if manual_reason.is_some() { ChangeMethod::Manual } else { rule.set };
    Finding {
        observed: observed.ok(),
        wanted: goal.ok().map(|goal| goal.words),
        writable: set != ChangeMethod::Manual && is_writable(host, &rule.read, subject),
        set,
        value,
        command,
        ..unjudged(rule, name, status, note.or(manual_reason))
    }
}

/// The value of a rule, as text; of several processors, the first that is not as wanted.
fn read(
    audit: AuditContext<'_>,
    read: &Read,
    subject: Subject<'_>,
    is_wanted: &dyn Fn(&str) -> bool,
) -> HostResult<String> {
    let AuditContext { host, subjects, .. } = audit;
    match read {
        Read::Sysctl { name, field } => sysctl(host, &subject.fill(name), *field),
        Read::File(path) => facts::file(host, &subject.fill(path), is_wanted),
        Read::Ethtool(what) => host.ethtool(subject.nic_name().ok_or(HostError::Absent)?, what),
        Read::Netlink(what) => host.netlink(subject.nic_name().ok_or(HostError::Absent)?, what),
        Read::Fact(name) => facts::fact(host, name, subject, &subjects.disks),
    }
}

/// Returns a value that its nature allows: a rule that only reports would show an invalid value as a known one.
fn checked_count(value: String, nature: Nature) -> HostResult<String> {
    match nature {
        Nature::Counter if value.parse::<u64>().is_err() => Err(HostError::Failed(format!("{value:?} is not a count"))),
        _ => Ok(value),
    }
}

fn is_writable(host: &dyn Host, read: &Read, subject: Subject<'_>) -> bool {
    match read {
        Read::Sysctl { name, .. } => host.may_write(Path::new(&crate::host::sysctl_path(&subject.fill(name)))),
        Read::File(path) if path.contains("{cpu}") => {
            facts::of_cpus(host, path).is_ok_and(|all| all.iter().any(|(path, _)| host.may_write(Path::new(path))))
        }
        Read::File(path) => host.may_write(Path::new(&subject.fill(path))),
        Read::Ethtool(_) | Read::Netlink(_) => host.may_administer(),
        Read::Fact(fact) if fact == facts::IRQS_PINNED => {
            let planned = subject.nic_name().map(|nic| facts::irq_plan(host, nic).unwrap_or_default());
            planned.is_some_and(|all| all.first().is_some_and(|(path, _)| host.may_write(Path::new(path))))
        }
        Read::Fact(_) => false,
    }
}

/// Whether the driver does not let a feature be changed: to try would fail, and a failure takes back the other changes of a plan.
fn is_fixed(host: &dyn Host, what: &str, subject: Subject<'_>) -> bool {
    let fixed = |nic: &str| host.ethtool(nic, &format!("{what}.fixed")).is_ok_and(|is| is == "yes");
    what.starts_with("feature.") && subject.nic_name().is_some_and(fixed)
}

/// Disciplines that undo restores by their kind alone: they hardly ever have options.
const PLAIN_QDISCS: [&str; 6] = ["noqueue", "pfifo", "pfifo_fast", "fq", "fq_codel", "mq"];

/// Why a change is left to a person, though this program could make it; none if it is not.
fn manual_reason(host: &dyn Host, read: &Read, subject: Subject<'_>) -> Option<String> {
    let nic = subject.nic_name()?;
    if matches!(read, Read::Ethtool(what) if is_fixed(host, what, subject)) {
        return Some(format!("the driver of {nic} does not let it be changed"));
    }
    if !matches!(read, Read::Netlink(what) if what.starts_with("qdisc")) {
        return None;
    }
    let kinds = ["qdisc", "qdisc.children"].map(|what| host.netlink(nic, what).unwrap_or_default());
    let shaper =
        kinds.iter().flat_map(|kinds| kinds.split(' ')).find(|kind| !kind.is_empty() && !PLAIN_QDISCS.contains(kind));
    shaper.map(|kind| format!("undo could not restore the options that {kind} on {nic} may have: do it by hand"))
}

/// A command with its placeholders filled in: `{want}` by the value, `{0}` to `{3}` by the fields of the setting.
fn fill(command: &str, value: Option<&str>, all_fields: &str, subject: Subject<'_>) -> String {
    let mut text = subject.fill(command);
    if let Some(value) = value {
        text = text.replace("{want}", value);
    }
    for (at, field) in all_fields.split_whitespace().enumerate().take(4) {
        text = text.replace(&format!("{{{at}}}"), field);
    }
    text
}

/// Whether a condition holds.
fn holds(audit: AuditContext<'_>, condition: &Condition, subject: Subject<'_>) -> Result<bool, String> {
    let AuditContext { host, target, subjects, physical } = audit;
    match condition {
        Condition::RateAtLeast(least) => match target.rate_bit_s.or(subject.speed()) {
            Some(rate) => Ok(rate >= *least),
            None => Err(format!(
                "the speed of the NIC is not known, and this is for {} and more: give --rate",
                BitRate(*least)
            )),
        },
        Condition::RateGiven => Ok(target.rate_bit_s.is_some()),
        Condition::Data => Ok(subject.as_nic().is_none_or(|nic| subjects.carries_data(nic))),
        Condition::RttAtLeast(least) => Ok(target.rtt_s >= *least),
        Condition::Role(role) => Ok(target.role.covers(role)),
        Condition::Jumbo => match (subject.mtu(), subject) {
            (Some(mtu), _) => Ok(mtu > 1_500),
            (None, Subject::Host(None) | Subject::Disk(_)) => Ok(false),
            (None, _) => Err("the MTU of the NIC is not known".into()),
        },
        Condition::KernelBelow(major, minor) => {
            facts::kernel(host).map(|release| release < (*major, *minor)).map_err(|e| e.to_string())
        }
        Condition::KernelFrom(major, minor) => {
            facts::kernel(host).map(|release| release >= (*major, *minor)).map_err(|e| e.to_string())
        }
        Condition::Has(what) => match facts::has(host, what, subject) {
            // A disk that is not mounted has no XFS on it, and so on.
            Err(HostError::Absent) => Ok(false),
            known => known.map_err(|e| e.to_string()),
        },
        Condition::Physical => physical.clone(),
    }
}
