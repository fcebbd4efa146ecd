//! `longhaul tune`: audits the settings of a host, changes them, and restores them.

mod apply;
mod audit;
mod calc;
mod compare;
mod page;
mod plan;
mod show;
mod undo;
mod verify;
mod watch;

use std::io::{BufRead, IsTerminal};
use std::path::Path;

use jiff::Timestamp;
use model::Exit;
use model::fault::Fault;
use model::v1::tune::AuditRequest;
use tune::apply::ApplyError;
use tune::audit::Audit;
use tune::host::{Host, Live, Recorded};
use tune::plan::{Change, PlanError};
use tune::rule::{Rule, rules};
use tune::subjects::{Subjects, disk_of};
use tune::target::{Role, Target};

use crate::args::{RATE_MAX, RTT_MAX, Tune, TuneAction, TunePurpose, TuneRole, TuneTarget};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::settings::Settings;

pub use audit::audit_lines;

/// Runs the command. Returns its exit code; with `--check` that of a monitoring plug-in.
///
/// # Errors
/// An argument is wrong, the host cannot be audited or changed, or a test fails.
pub fn run(tune: &Tune, settings: &Settings, printer: &Printer) -> Result<u8, Failure> {
    let host = host(tune.root.as_deref());
    let host = host.as_ref();
    let snapshot_dir = settings.state_path()?.join("tune");
    let done = |exit: Exit| exit as u8;
    match &tune.action {
        TuneAction::Audit(audit) => audit::run(audit, || AuditedHost::of(host, tune, &audit.target), printer),
        TuneAction::Plan(plan) => plan::run(plan, &AuditedHost::of(host, tune, &plan.target)?, printer).map(done),
        TuneAction::Apply(apply) => {
            apply::run(apply, &AuditedHost::of(host, tune, &apply.target)?, &snapshot_dir, printer).map(done)
        }
        TuneAction::Undo(undo) => undo::run(undo, host, &snapshot_dir, printer).map(done),
        TuneAction::Verify(verify) => {
            verify::run(verify, &AuditedHost::of(host, tune, &verify.target)?, settings, &snapshot_dir, printer)
                .map(done)
        }
        TuneAction::Compare(compare) => compare::run(compare, settings, printer),
        TuneAction::Watch(watch) => watch::run(watch, tune, host, &snapshot_dir, printer),
        TuneAction::Calc(calc) => calc::run(calc, printer).map(done),
    }
}

fn host(root: Option<&Path>) -> Box<dyn Host> {
    match root {
        Some(root) => Box::new(Recorded::new(root)),
        None => Box::new(Live),
    }
}

/// A host with its audit.
struct AuditedHost<'a> {
    host: &'a dyn Host,
    rules: Vec<Rule>,
    target: Target,
    subjects: Subjects,
    audit: Audit,
}

impl<'a> AuditedHost<'a> {
    /// Audits a host for the target of the command line.
    fn of(host: &'a dyn Host, tune: &Tune, target_args: &TuneTarget) -> Result<AuditedHost<'a>, Failure> {
        let rules = rules().map_err(|e| Failure::from_chain(Fault::Bug, &e))?;
        check_nics(host, &target_args.nic)?;
        let disks = target_args.disk.iter().map(|path| disk(host, path, tune.root.is_none()));
        let mut disks = disks.collect::<Result<Vec<String>, Failure>>()?;
        disks.sort();
        disks.dedup();
        Ok(AuditedHost::new(host, rules, target(host, target_args), Subjects::find(host, &target_args.nic, disks)))
    }

    /// A value of /proc/sys/kernel: `hostname` or `osrelease`.
    fn kernel_value(&self, what: &str) -> Option<String> {
        tune::host::sysctl(self.host, &format!("kernel.{what}"), None).ok()
    }

    /// Audits a host for the target of another host's query.
    fn for_query(host: &'a dyn Host, ask: &AuditRequest) -> Result<AuditedHost<'a>, Failure> {
        let rules = rules().map_err(|e| Failure::from_chain(Fault::Bug, &e))?;
        let roles = [Role::Dtn, Role::Measurement, Role::Both];
        let role = roles.into_iter().find(|role| role.word() == ask.role);
        let role = role.ok_or_else(|| Failure::usage(format!("{:?} is not a role of a host", ask.role)))?;
        let rtt_s = ask.rtt_s;
        if !(rtt_s > 0.0 && rtt_s <= RTT_MAX.as_secs_f64()) || ask.rate_bit_s.is_some_and(|rate| rate > RATE_MAX.0) {
            return Err(Failure::usage("no path has such a rate and round trip"));
        }
        let target = Target { rate_bit_s: ask.rate_bit_s, rtt_s, role, memory_bytes: memory_bytes(host) };
        Ok(AuditedHost::new(host, rules, target, Subjects::find(host, &[], Vec::new())))
    }

    fn new(host: &'a dyn Host, rules: Vec<Rule>, target: Target, subjects: Subjects) -> AuditedHost<'a> {
        let audit = Audit::of(host, &rules, &target, &subjects);
        AuditedHost { host, rules, target, subjects, audit }
    }

    /// The rate that the rules apply to, and whether the user named it; if not, it is that of the fastest NIC.
    fn rate_bit_s(&self) -> Option<(u64, bool)> {
        let of_nic = || self.subjects.fastest().and_then(|nic| nic.speed_bit_s);
        self.target.rate_bit_s.map(|rate| (rate, true)).or_else(|| of_nic().map(|rate| (rate, false)))
    }

    /// The ids of the typed rules, as the rules spell them. An unknown id is an error that names the nearest ones.
    fn ids(&self, typed: &[String]) -> Result<Vec<String>, Failure> {
        let find = |id: &String| {
            let known = self.rules.iter().find(|rule| rule.id.eq_ignore_ascii_case(id));
            known.map(|rule| rule.id.clone()).ok_or_else(|| unknown_rule(id, &self.rules))
        };
        typed.iter().map(find).collect()
    }
}

fn role(role: TuneRole) -> Role {
    match role {
        TuneRole::Dtn => Role::Dtn,
        TuneRole::Measurement => Role::Measurement,
        TuneRole::Both => Role::Both,
    }
}

fn target(host: &dyn Host, target_args: &TuneTarget) -> Target {
    let TunePurpose { rate, rtt, role: tune_role } = target_args.purpose;
    let rate_bit_s = rate.map(|rate| rate.0);
    Target { rate_bit_s, rtt_s: rtt.as_secs_f64(), role: role(tune_role), memory_bytes: memory_bytes(host) }
}

/// `MemTotal:  16318412 kB`, where kB is KiB (proc_meminfo(5)); 0 where it is not known.
fn memory_bytes(host: &dyn Host) -> u64 {
    let text = host.read(Path::new("/proc/meminfo")).unwrap_or_default();
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = total.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.and_then(|kib| kib.checked_mul(1_024)).unwrap_or(0)
}

/// Checks that the typed NICs exist: all settings of a mistyped one would be unknown.
fn check_nics(host: &dyn Host, typed: &[String]) -> Result<(), Failure> {
    let known = host.list(Path::new("/sys/class/net")).unwrap_or_default();
    match typed.iter().find(|nic| !known.contains(nic)) {
        Some(nic) => Err(Failure::usage(format!("there is no NIC {nic}; there are {}", known.join(", ")))),
        None => Ok(()),
    }
}

/// The disk that a path lies on. `follow` says to follow links, for a path on this host.
fn disk(host: &dyn Host, path: &Path, follow: bool) -> Result<String, Failure> {
    let failed = |why: String| Failure::usage(format!("no disk is known for {}: {why}", path.display()));
    let is_name = path.components().count() == 1 && host.list(&Path::new("/sys/block").join(path)).is_ok();
    let real = if follow && !is_name {
        std::fs::canonicalize(path).map_err(|e| failed(e.to_string()))?
    } else {
        path.to_owned()
    };
    disk_of(host, &real).map_err(|e| failed(e.to_string()))
}

/// The time to the millisecond. It is the name of a snapshot, and two may be made in one second.
fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()
}

/// Asks the user at the terminal for a yes. Without a terminal this is an error.
fn confirm(question: &str) -> Result<bool, Failure> {
    if !std::io::stdin().is_terminal() {
        return Err(Failure::usage(format!(
            "{question} There is no terminal for the question: give --yes, or name the rules"
        )));
    }
    Printer::stderr_line(&format!("{question} [y/N]"));
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer).map_err(|e| Failure::local(format!("no answer: {e}")))?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// The rules of these changes, each once: one rule may have a change for every processor.
fn ids(changes: &[Change]) -> Vec<&str> {
    let mut ids: Vec<&str> = Vec::new();
    for id in changes.iter().flat_map(|change| &change.ids) {
        if !ids.contains(&id.as_str()) {
            ids.push(id);
        }
    }
    ids
}

/// The failure for an unknown rule; it names the nearest ids.
fn unknown_rule(id: &str, rules: &[Rule]) -> Failure {
    let typed = id.to_ascii_uppercase();
    let mut near: Vec<&str> = rules.iter().map(|rule| rule.id.as_str()).collect();
    near.sort_by_key(|known| distance(&typed, known));
    near.truncate(3);
    Failure::usage(format!(
        "there is no rule {id}; the nearest are {} (`longhaul tune audit --all` lists all)",
        near.join(", ")
    ))
}

/// The number of letters to insert, delete or replace to turn one word into another (Levenshtein distance).
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    // No id is longer than 32 letters, so further letters are not compared.
    for (at, letter) in from.chars().take(32).enumerate() {
        let mut last = row[0];
        row[0] = at + 1;
        for (to_at, other) in to.iter().enumerate() {
            let changed = last + usize::from(letter != *other);
            last = row[to_at + 1];
            row[to_at + 1] = changed.min(last + 1).min(row[to_at] + 1);
        }
    }
    row[to.len()]
}

impl From<PlanError> for Failure {
    fn from(error: PlanError) -> Failure {
        match error {
            PlanError::NoRule(_) => Failure::usage(error.to_string()),
            _ => Failure::from_chain(Fault::Local, &error),
        }
    }
}

impl From<ApplyError> for Failure {
    fn from(error: ApplyError) -> Failure {
        let fault = match &error {
            ApplyError::Snapshot { .. } | ApplyError::File { .. } => Fault::Storage,
            ApplyError::NoSnapshot { .. } => Fault::Config,
            ApplyError::OtherHost { .. } => Fault::Auth,
            _ => Fault::Local,
        };
        Failure::from_chain(fault, &error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_can_name_a_file() {
        let now = now();
        assert!(
            now.len() == 24 && now.ends_with('Z') && now.as_bytes()[10] == b'T' && now.as_bytes()[19] == b'.',
            "{now}"
        );
    }

    #[test]
    fn the_nearest_ids_are_named() {
        assert_eq!((distance("T01", "T01"), distance("T1", "T01"), distance("", "T01")), (0, 1, 3));
        let failure = unknown_rule("t1", &rules().unwrap());
        assert_eq!(failure.exit, Exit::Usage);
        assert!(failure.message.contains("no rule t1") && failure.message.contains("T01"), "{}", failure.message);
    }

    #[test]
    fn memory_is_read_in_kib() {
        let dir = tempfile::tempdir().unwrap();
        let host = Recorded::new(dir.path());
        assert_eq!(memory_bytes(&host), 0);
        std::fs::create_dir(dir.path().join("proc")).unwrap();
        std::fs::write(dir.path().join("proc/meminfo"), "MemTotal:       16318412 kB\nMemFree: 1 kB\n").unwrap();
        assert_eq!(memory_bytes(&host), 16_318_412 * 1_024);
    }
}
