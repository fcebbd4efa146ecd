//! Plans changes: which settings, in which order; and writes the plan as a script that others can read and run.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::facts;
use crate::finding::{Finding, Status};
use crate::host::{Host, HostResult, sysctl, sysctl_path};
use crate::judge::selected;
use crate::rule::{ChangeMethod, Persist, Read, Rule, Want};
use crate::subjects::{Subject, Subjects};

/// Where a setting is read and written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SettingLocation {
    /// A sysctl, by its dotted name.
    Sysctl(String),
    /// A file of the kernel.
    File(String),
    /// A setting of a NIC by ethtool.
    Ethtool {
        /// The NIC.
        nic: String,
        /// Its name.
        what: String,
    },
    /// A setting of a NIC by rtnetlink.
    Netlink {
        /// The NIC.
        nic: String,
        /// Its name.
        what: String,
    },
}

impl SettingLocation {
    /// The value that it has now.
    ///
    /// # Errors
    /// The host has no such setting, or it cannot be read.
    pub fn read(&self, host: &dyn Host) -> HostResult<String> {
        match self {
            SettingLocation::Sysctl(name) => sysctl(host, name, None),
            SettingLocation::File(path) => host.read(std::path::Path::new(path)),
            SettingLocation::Ethtool { nic, what } => host.ethtool(nic, what),
            SettingLocation::Netlink { nic, what } => host.netlink(nic, what),
        }
    }

    /// Sets it to a value.
    ///
    /// # Errors
    /// The host has no such setting, or the kernel refuses the value.
    pub fn write(&self, host: &dyn Host, value: &str) -> HostResult<()> {
        match self {
            SettingLocation::Sysctl(name) => host.write(std::path::Path::new(&sysctl_path(name)), value),
            SettingLocation::File(path) => host.write(std::path::Path::new(path), value),
            SettingLocation::Ethtool { nic, what } => host.set_ethtool(nic, what, value),
            SettingLocation::Netlink { nic, what } => host.set_netlink(nic, what, value),
        }
    }
}

impl std::fmt::Display for SettingLocation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SettingLocation::Sysctl(name) => f.write_str(name),
            SettingLocation::File(path) => f.write_str(path),
            SettingLocation::Ethtool { nic, what } | SettingLocation::Netlink { nic, what } => {
                write!(f, "{nic} {what}")
            }
        }
    }
}

/// One change. Several rules may ask for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The ids of the rules.
    pub ids: Vec<String>,
    /// The setting.
    pub place: SettingLocation,
    /// The present value.
    pub before: String,
    /// The new value.
    pub after: String,
    /// The command that makes the change by hand.
    pub command: String,
    /// How it survives a reboot.
    pub persist: Persist,
    /// The kernel makes this change by itself with the one before it: it is recorded for undo, and never written. (Writing it would undo
    /// that change: a limit as a share of memory sets the one in bytes to 0, even where the share is 0 already.)
    #[serde(default, skip_serializing_if = "is_false")]
    pub follows: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

/// Why a plan cannot be made.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlanError {
    /// No rule has that id.
    #[error("there is no rule {0}; `longhaul tune audit` lists them")]
    NoRule(String),
    /// The present value is not known.
    #[error("the present value of {id} is not known ({why})")]
    Unknown {
        /// The rule.
        id: String,
        /// The reason.
        why: String,
    },
    /// This program cannot change it.
    #[error("this program cannot change {id} here: {why}")]
    NotChangeable {
        /// The rule.
        id: String,
        /// The reason, or what to do by hand.
        why: String,
    },
}

/// Plans the changes that make every setting as wanted, as far as this program can; or those of some rules.
///
/// # Errors
/// A rule does not exist, or cannot be applied to this host.
pub fn plan(
    host: &dyn Host,
    rules: &[Rule],
    findings: &[Finding],
    subjects: &Subjects,
    only: &[String],
) -> Result<Vec<Change>, PlanError> {
    for id in only {
        let rule = rules.iter().find(|rule| rule.id == *id).ok_or_else(|| PlanError::NoRule(id.clone()))?;
        let of_rule = || findings.iter().filter(|finding| finding.id == *id);
        if let Some(why) = unknown(of_rule()) {
            return Err(PlanError::Unknown { id: id.clone(), why });
        }
        let manual = rule.set == ChangeMethod::Manual || of_rule().all(|finding| finding.set == ChangeMethod::Manual);
        if manual || !of_rule().any(|finding| finding.writable || finding.status == Status::Ok) {
            let first = of_rule().next();
            let command = first.map_or(rule.command.clone(), |finding| finding.command.clone());
            let why = if manual { manual_reason(first, &command) } else { not_writable_reason(host, first) };
            return Err(PlanError::NotChangeable { id: id.clone(), why });
        }
    }
    let mut changes: Vec<Change> = Vec::new();
    let chosen = findings.iter().filter(|f| f.status == Status::Differs && f.writable);
    for finding in chosen.filter(|finding| only.is_empty() || only.contains(&finding.id)) {
        let rule = rules.iter().find(|rule| rule.id == finding.id);
        if let Some(rule) = rule {
            add(&mut changes, host, rule, finding, subjects);
        }
    }
    order_triples(&mut changes);
    add_dirty_ratios(host, &mut changes);
    Ok(changes)
}

/// Makes the commands of findings that share a setting contain all of their values: otherwise each command would undo the effect of the
/// one before it.
pub(crate) fn merge_commands(host: &dyn Host, rules: &[Rule], findings: &mut [Finding], subjects: &Subjects) {
    let as_writable = |finding: &Finding| Finding { writable: finding.set != ChangeMethod::Manual, ..finding.clone() };
    let all: Vec<Finding> = findings.iter().map(as_writable).collect();
    let changes = plan(host, rules, &all, subjects, &[]).unwrap_or_default();
    for change in changes.iter().filter(|change| !change.follows) {
        let SettingLocation::Sysctl(name) = &change.place else { continue };
        let asks_for_it =
            |finding: &&mut Finding| finding.status == Status::Differs && change.ids.contains(&finding.id);
        for finding in findings.iter_mut().filter(asks_for_it) {
            finding.command = sysctl_command(name, &change.after);
        }
    }
    // A rule with a value for each setting has no command of its own.
    let of_irqs = |rule: &&Rule| rule.read == Read::Fact(facts::IRQS_PINNED.into());
    let ids: Vec<&str> = rules.iter().filter(of_irqs).map(|rule| rule.id.as_str()).collect();
    for finding in findings.iter_mut().filter(|f| f.status == Status::Differs && ids.contains(&f.id.as_str())) {
        let Some(nic) = &finding.subject else { continue };
        let planned = facts::irq_plan(host, nic).unwrap_or_default();
        let lines: Vec<String> = planned.iter().map(|(path, cpu)| format!("echo {cpu} > {path}")).collect();
        if !lines.is_empty() {
            finding.command = lines.join("; ");
        }
    }
}

/// Puts settings of three numbers into ascending order: the least, the middle and the largest. A rule that lowers the largest number
/// prevails; otherwise the rule that asks for more.
fn order_triples(changes: &mut [Change]) {
    for change in changes {
        let SettingLocation::Sysctl(name) = &change.place else { continue };
        let numbers: Option<Vec<u64>> = change.after.split_whitespace().map(|field| field.parse().ok()).collect();
        let Some([least, middle, most]) = numbers.as_deref().and_then(|n| <[u64; 3]>::try_from(n).ok()) else {
            continue;
        };
        let most_before = change.before.split_whitespace().nth(2).and_then(|field| field.parse::<u64>().ok());
        let ordered = if most_before.is_some_and(|before| most < before) {
            [least.min(most), middle.min(most), most]
        } else {
            [least, middle.max(least), most.max(middle).max(least)]
        };
        if ordered != [least, middle, most] {
            change.after = ordered.map(|number| number.to_string()).join(" ");
            change.command = sysctl_command(name, &change.after);
        }
    }
}

/// Why a rule is unknown on all of its subjects.
fn unknown<'a>(mut of_rule: impl Iterator<Item = &'a Finding>) -> Option<String> {
    let first = of_rule.next().filter(|finding| finding.status == Status::Unknown)?;
    of_rule.all(|finding| finding.status == Status::Unknown).then(|| first.note.clone().unwrap_or_default())
}

fn manual_reason(finding: Option<&Finding>, command: &str) -> String {
    let note = finding.filter(|finding| finding.status == Status::Differs).and_then(|finding| finding.note.clone());
    note.map_or_else(|| format!("do it by hand: {command}"), |note| format!("{note} ({command})"))
}

fn not_writable_reason(host: &dyn Host, finding: Option<&Finding>) -> String {
    let note = finding.and_then(|finding| finding.note.clone());
    note.unwrap_or_else(|| unwritable_reason(host).to_owned())
}

/// Why a setting that could be changed cannot be changed by this user.
pub fn unwritable_reason(host: &dyn Host) -> &'static str {
    if host.may_administer() {
        "a container or namespace keeps it from being written: change it on the host outside"
    } else {
        "this user may not write it: try as root"
    }
}

/// Adds the value of a finding to the changes of its settings, or makes these changes.
fn add(changes: &mut Vec<Change>, host: &dyn Host, rule: &Rule, finding: &Finding, subjects: &Subjects) {
    let Some(value) = &finding.value else { return };
    let places = places(host, rule, finding, subjects);
    let is_one = places.len() == 1;
    for WriteTarget { place, field, own } in places {
        let value = own.as_ref().unwrap_or(value);
        if let Some(known) = changes.iter_mut().find(|change| change.place == place) {
            known.after = merged(&known.after, value, field, &rule.want);
            known.ids.push(finding.id.clone());
            // The command of a single rule would set only its own part.
            if let SettingLocation::Sysctl(name) = &known.place {
                known.command = sysctl_command(name, &known.after);
            }
            continue;
        }
        let Ok(before) = place.read(host) else { continue };
        // Of a list of choices, only the selected one: the kernel does not take the list.
        let before = if field.is_none() { selected(&before).to_owned() } else { before };
        let after = merged(&before, value, field, &rule.want);
        if after != before {
            let command = match &place {
                // The rule's own command is for all processors, and only some may be wrong.
                SettingLocation::File(path) if !is_one => format!("echo {after} > {path}"),
                _ => finding.command.clone(),
            };
            let ids = vec![finding.id.clone()];
            let persist = finding.persist;
            changes.push(Change { ids, place, before, after, command, persist, follows: false });
        }
    }
}

fn sysctl_command(name: &str, value: &str) -> String {
    if value.contains(' ') { format!("sysctl -w {name}='{value}'") } else { format!("sysctl -w {name}={value}") }
}

/// Adds the changes that follow those of dirty memory. Its limits are in bytes or a share of memory: writing one sets the other to 0, and
/// 0 bytes can only be restored by writing the share (Documentation/admin-guide/sysctl/vm). So the share is a change that follows that of
/// the bytes; undo begins with the last change, and so with the share.
fn add_dirty_ratios(host: &dyn Host, changes: &mut Vec<Change>) {
    for (bytes, share) in
        [("vm.dirty_bytes", "vm.dirty_ratio"), ("vm.dirty_background_bytes", "vm.dirty_background_ratio")]
    {
        let is_from_zero =
            |change: &Change| change.place == SettingLocation::Sysctl(bytes.into()) && change.before == "0";
        let Some(at) = changes.iter().position(is_from_zero) else { continue };
        let place = SettingLocation::Sysctl(share.into());
        let Ok(before) = place.read(host) else { continue };
        let follower = Change { place, before, after: "0".into(), follows: true, ..changes[at].clone() };
        changes.insert(at + 1, follower);
    }
}

/// The settings that a rule's value is written to, with the field of each: one setting, or one for each processor.
fn places(host: &dyn Host, rule: &Rule, finding: &Finding, subjects: &Subjects) -> Vec<WriteTarget> {
    match (&rule.read, &finding.subject) {
        (Read::File(path), _) if path.contains("{cpu}") => {
            let all = facts::of_cpus(host, path).unwrap_or_default();
            let target = |(path, _)| WriteTarget { place: SettingLocation::File(path), field: None, own: None };
            all.into_iter().map(target).collect()
        }
        (Read::Fact(fact), Some(nic)) if fact == facts::IRQS_PINNED => {
            let all = facts::irq_plan(host, nic).unwrap_or_default();
            let target = |(path, cpu): (String, u32)| WriteTarget {
                place: SettingLocation::File(path),
                field: None,
                own: Some(cpu.to_string()),
            };
            all.into_iter().map(target).collect()
        }
        _ => {
            let target = place(rule, finding, subjects);
            target.map(|(place, field)| WriteTarget { place, field, own: None }).into_iter().collect()
        }
    }
}

/// A setting that a rule's value is written to.
struct WriteTarget {
    place: SettingLocation,
    /// Which of several numbers the value replaces; none where it replaces all of them.
    field: Option<usize>,
    /// The value for this setting, where each setting of the rule has its own.
    own: Option<String>,
}

fn place(rule: &Rule, finding: &Finding, subjects: &Subjects) -> Option<(SettingLocation, Option<usize>)> {
    let nic = finding.subject.as_ref().and_then(|name| subjects.nics.iter().find(|nic| nic.name == *name));
    let subject = match (nic, &finding.subject) {
        (Some(nic), _) => Subject::Nic(nic),
        (None, Some(disk)) => Subject::Disk(disk),
        (None, None) => Subject::Host(None),
    };
    let of_nic = || subject.nic_name().map(str::to_owned);
    Some(match &rule.read {
        Read::Sysctl { name, field } => (SettingLocation::Sysctl(subject.fill(name)), *field),
        Read::File(path) => (SettingLocation::File(subject.fill(path)), None),
        Read::Ethtool(what) => (SettingLocation::Ethtool { nic: of_nic()?, what: what.clone() }, None),
        Read::Netlink(what) => (SettingLocation::Netlink { nic: of_nic()?, what: what.clone() }, None),
        Read::Fact(_) => return None,
    })
}

/// The text with a value in place of a field; of two rules about one value, the stricter prevails.
fn merged(text: &str, value: &str, field: Option<usize>, want: &Want) -> String {
    let stricter = |old: &str| match (old.parse::<f64>(), value.parse::<f64>(), want) {
        (Ok(old), Ok(new), Want::AtLeast(_)) if old > new => None,
        (Ok(old), Ok(new), Want::AtMost(_)) if old < new => None,
        _ => Some(value.to_owned()),
    };
    match field {
        None => stricter(text).unwrap_or_else(|| text.to_owned()),
        Some(field) => {
            let fields = text.split_whitespace().enumerate();
            let put = |(at, old): (usize, &str)| {
                if at == field { stricter(old).unwrap_or_else(|| old.to_owned()) } else { old.to_owned() }
            };
            fields.map(put).collect::<Vec<_>>().join(" ")
        }
    }
}

/// The plan as a shell script.
pub fn script(changes: &[Change]) -> String {
    let mut text = String::from(
        "#!/bin/sh\n# What `longhaul tune apply` would do. It records the values before, and takes all changes back if one of them\n\
         # fails; this script does neither: it names what failed, and goes on.\nfailed=\n",
    );
    let mut last_command = "";
    for change in changes.iter().filter(|change| !change.follows) {
        let ids = change.ids.join(", ");
        let _ = write!(text, "\n# {ids}: {} (now: {})\n", change.place, change.before);
        // One command may be for all processors.
        if last_command != change.command {
            let _ = writeln!(text, "{{ {}\n}} || failed=\"$failed {ids}\"", change.command);
        }
        last_command = &change.command;
    }
    text.push_str("\n[ -z \"$failed\" ] || { echo \"failed: $failed\" >&2; exit 1; }\n");
    text
}

/// The plan as a diff.
pub fn diff(changes: &[Change]) -> String {
    let line = |change: &Change| format!("  {}\n- {}\n+ {}\n", change.place, change.before, change.after);
    changes.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::Value;

    #[test]
    fn a_value_replaces_one_field_and_the_stricter_wins() {
        let least = Want::AtLeast(Value::Number(0.0));
        assert_eq!(merged("4096 131072 6291456", "67108864", Some(2), &least), "4096 131072 67108864");
        assert_eq!(merged("4096 131072 67108864", "1000", Some(2), &least), "4096 131072 67108864");
        assert_eq!(merged("5", "7", None, &Want::AtMost(Value::Number(0.0))), "5");
        assert_eq!(merged("reno", "bbr", None, &Want::Is(Value::Word("bbr".into()))), "bbr");
    }

    #[test]
    fn each_wrong_processor_is_one_change() {
        let dir = tempfile::tempdir().unwrap();
        for (cpu, governor) in [(0, "performance"), (1, "powersave"), (2, "powersave")] {
            let at = dir.path().join(format!("sys/devices/system/cpu/cpu{cpu}/cpufreq"));
            std::fs::create_dir_all(&at).unwrap();
            std::fs::write(at.join("scaling_governor"), governor).unwrap();
        }
        let host = crate::host::Recorded::new(dir.path());
        let rules = crate::rule::rules().unwrap();
        let subjects = Subjects::default();
        let audit = crate::audit::Audit::of(&host, &rules, &crate::target::Target::default(), &subjects);
        let mut findings = audit.findings;
        // This test does not ask whether the rule is for this host.
        let governor = findings.iter_mut().find(|finding| finding.id == "C01").unwrap();
        (governor.status, governor.writable, governor.value) = (Status::Differs, true, Some("performance".into()));
        let changes = plan(&host, &rules, &findings, &subjects, &["C01".into()]).unwrap();
        let path = |cpu: u32| format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor");
        let places: Vec<SettingLocation> = changes.iter().map(|change| change.place.clone()).collect();
        assert_eq!(places, [SettingLocation::File(path(1)), SettingLocation::File(path(2))]);
        assert_eq!(changes[0].command, format!("echo performance > {}", path(1)));
    }

    #[test]
    fn three_numbers_stay_in_their_order() {
        let tcp_mem = |before: &str, after: &str| Change {
            ids: vec!["T05".into()],
            place: SettingLocation::Sysctl("net.ipv4.tcp_mem".into()),
            before: before.into(),
            after: after.into(),
            command: String::new(),
            persist: Persist::SysctlD,
            follows: false,
        };
        // A rule that raises the second number raises the third with it; a rule that lowers the third lowers the second with it.
        let mut changes =
            [tcp_mem("1000 2000 3000", "1000 610352 3000"), tcp_mem("1000 5000000 9000000", "1000 5000000 2097152")];
        order_triples(&mut changes);
        let after: Vec<&str> = changes.iter().map(|change| change.after.as_str()).collect();
        assert_eq!(after, ["1000 610352 610352", "1000 2097152 2097152"]);
        assert_eq!(changes[0].command, "sysctl -w net.ipv4.tcp_mem='1000 610352 610352'");
    }

    #[test]
    fn a_plan_is_shown_as_diff_and_script() {
        let change = Change {
            ids: vec!["T01".into()],
            place: SettingLocation::Sysctl("net.core.rmem_max".into()),
            before: "212992".into(),
            after: "67108864".into(),
            command: "sysctl -w net.core.rmem_max=67108864".into(),
            persist: Persist::SysctlD,
            follows: false,
        };
        let all = [change];
        assert_eq!(diff(&all), "  net.core.rmem_max\n- 212992\n+ 67108864\n");
        assert!(
            script(&all)
                .contains("\n# T01: net.core.rmem_max (now: 212992)\n{ sysctl -w net.core.rmem_max=67108864\n}")
        );
    }
}
