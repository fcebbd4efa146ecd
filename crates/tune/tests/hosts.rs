//! Audits and changes of recorded hosts, written by hand (`tests/hosts/*.host`): every fault is found, values that cannot be known are
//! reported as unknown, and every change is restored byte for byte.

// Tests may unwrap: clippy.toml permits it in test functions, but not in the functions that they call.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "hosts/change.rs"]
mod change;
#[path = "hosts/faults.rs"]
mod faults;
#[path = "hosts/judged.rs"]
mod judged;
#[path = "hosts/tree.rs"]
mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

use faults::{BROKEN, Fault, NEGLECTED, NEVER_DIFFER, RAID, VIRTUAL, VIRTUAL_UNKNOWN};
use tree::{Item, Tree};
use tune::audit::{Audit, Finding, Status};
use tune::rule::{Rule, Want, rules};
use tune::subjects::Subjects;
use tune::target::{Role, Target};

/// A path of 100 Gbit/s and 303 ms, a host of 256 GiB.
const FAR: Target =
    Target { rate_bit_s: Some(100_000_000_000), rtt_s: 0.303, role: Role::Both, memory_bytes: 256 << 30 };
/// A host of 8 GiB, whose rate the user did not name.
const SMALL: Target = Target { rate_bit_s: None, memory_bytes: 8 << 30, ..FAR };
const RAID_DISKS: [&str; 8] = ["md0", "md1", "nvme0n1", "nvme1n1", "nvme2n1", "nvme3n1", "sdc", "sdd"];

/// A recorded host with everything that an audit of it needs.
struct AuditFixture {
    tree: Tree,
    rules: Vec<Rule>,
    subjects: Subjects,
    target: Target,
}

impl AuditFixture {
    fn at(name: &str, target: Target, disks: &[&str]) -> AuditFixture {
        let tree = Tree::unpack(name);
        let subjects = Subjects::find(&tree.host(), &[], disks.iter().map(|disk| (*disk).to_owned()).collect());
        AuditFixture { tree, rules: rules().unwrap(), subjects, target }
    }

    fn audit(&self) -> Audit {
        Audit::of(&self.tree.host(), &self.rules, &self.target, &self.subjects)
    }
}

fn neglected() -> AuditFixture {
    AuditFixture::at("neglected-100g", FAR, &["nvme0n1"])
}

/// Id, observed value and reason of the findings with this status, one a line.
fn lines_of(findings: &[Finding], status: Status) -> String {
    let line = |f: &Finding| format!("{} {:?}: {:?}, {:?}, {:?}\n", f.id, f.subject, f.observed, f.wanted, f.note);
    findings.iter().filter(|finding| finding.status == status).map(line).collect()
}

/// Checks that every injected fault is found with the injected value, and no other.
fn assert_finds(fixture: &AuditFixture, faults: &[Fault]) {
    let audit = fixture.audit();
    let found: BTreeSet<(&str, &str)> = audit
        .findings
        .iter()
        .filter(|finding| finding.status == Status::Differs)
        .map(|finding| (finding.id.as_str(), finding.observed.as_deref().unwrap_or_default()))
        .collect();
    let injected: BTreeSet<(&str, &str)> = faults.iter().copied().collect();
    let missed: Vec<_> = injected.difference(&found).collect();
    let more: Vec<_> = found.difference(&injected).collect();
    assert!(missed.is_empty() && more.is_empty(), "missed {missed:#?}, and found besides {more:#?}");
}

#[test]
fn a_host_that_is_well_tuned_has_nothing_to_change() {
    let fixture = AuditFixture::at("two-sockets-100g", FAR, &["nvme0n1"]);
    let names: Vec<&str> = fixture.subjects.nics.iter().map(|nic| nic.name.as_str()).collect();
    assert_eq!(names, ["ens1f0np0"], "no VLAN, and no port that is down");
    let Audit { findings } = fixture.audit();
    assert_eq!(
        (lines_of(&findings, Status::Differs), lines_of(&findings, Status::Unknown)),
        (String::new(), String::new())
    );
    // For each of these rules, the reason why it does not apply is known.
    let not: BTreeSet<&str> =
        findings.iter().filter(|f| f.status == Status::NotApplicable).map(|finding| finding.id.as_str()).collect();
    assert_eq!(not, BTreeSet::from(["T15", "T20", "S01", "S02", "D01a", "D01b", "D03", "D04d", "D05", "D09"]));
}

#[test]
fn every_fault_of_a_neglected_host_is_found() {
    let fixture = neglected();
    assert_finds(&fixture, NEGLECTED);
    assert_eq!(lines_of(&fixture.audit().findings, Status::Unknown), "");
}

#[test]
fn a_volume_on_an_array_is_audited_with_its_members() {
    let fixture = AuditFixture::at("nvme-raid", FAR, &RAID_DISKS);
    assert_finds(&fixture, RAID);
    let Audit { findings } = fixture.audit();
    assert_eq!(lines_of(&findings, Status::Unknown), "");
    let of = |id: &str, disk: &str| findings.iter().find(|f| f.id == id && f.subject.as_deref() == Some(disk)).unwrap();
    assert_eq!((of("D04", "md0").observed.as_deref(), of("D04d", "md0").status), (Some("xfs"), Status::Ok));
    assert_eq!(of("D05", "md0").observed.as_deref(), Some("raid0 of 4, chunk 512 KiB"));
    assert_eq!(of("D05", "md1").observed.as_deref(), Some("raid6 of 8, chunk 64 KiB"));
    // An array is not a drive: its members have schedulers.
    for (id, disk) in [("D01a", "md1"), ("D01b", "md0")] {
        assert_eq!(of(id, disk).status, Status::NotApplicable, "{id} {disk}");
    }
}

#[test]
fn what_a_virtual_machine_hides_is_unknown() {
    let fixture = AuditFixture::at("virtual-10g", SMALL, &["vda"]);
    assert_finds(&fixture, VIRTUAL);
    let Audit { findings } = fixture.audit();
    for (id, why) in VIRTUAL_UNKNOWN {
        let finding = findings.iter().find(|finding| finding.id == *id).unwrap();
        assert_eq!(finding.status, Status::Unknown, "{finding:?}");
        assert!(finding.note.as_ref().is_some_and(|note| note.contains(why)), "{finding:?}");
    }
    // A user who names the rate gets more findings; no rate is guessed.
    let with_rate = AuditFixture { target: Target { rate_bit_s: Some(10_000_000_000), ..SMALL }, ..fixture };
    let Audit { findings } = with_rate.audit();
    let status = |id: &str| findings.iter().find(|finding| finding.id == id).unwrap().status;
    assert_eq!((status("T01"), status("T03")), (Status::Differs, Status::Differs));
    assert_eq!((status("N03"), status("N05")), (Status::Unknown, Status::NotApplicable));
}

#[test]
fn invalid_values_are_unknown_with_a_reason() {
    let fixture = AuditFixture::at("broken", FAR, &["nvme0n1"]);
    let before = fixture.tree.all();
    let Audit { findings } = fixture.audit();
    assert_eq!(lines_of(&findings, Status::Differs), "", "invalid values are not judged");
    let unknown = findings.iter().filter(|finding| finding.status == Status::Unknown);
    for finding in unknown.clone() {
        assert!(finding.note.as_ref().is_some_and(|note| !note.is_empty()), "{finding:?}");
    }
    let unknown: BTreeSet<&str> = unknown.map(|finding| finding.id.as_str()).collect();
    let missed: Vec<_> = BROKEN.iter().filter(|id| !unknown.contains(*id)).collect();
    assert!(missed.is_empty(), "not unknown: {missed:?}");
    assert!(fixture.tree.all() == before, "an audit writes nothing");
}

/// Each file of a host gets contents that no rule expects.
#[test]
fn invalid_files_break_no_audit_and_are_no_fault() {
    const NONSENSE: [&[u8]; 8] = [
        b"",
        b"garbage\n",
        b"-1\n",
        b"18446744073709551615\n",
        b"99999999999999999999 99999999999999999999 99999999999999999999\n",
        b"0-4294967295,[x] 1e300\n",
        b"0\n",
        b"ffffffff,ffffffff,ffffffff ffffffff\n",
    ];
    let disks = RAID_DISKS.map(str::to_owned).to_vec();
    let fixture = AuditFixture::at("nvme-raid", FAR, &[]);
    let host = fixture.tree.host();
    let audit = || Audit::of(&host, &fixture.rules, &FAR, &Subjects::find(&host, &[], disks.clone())).findings;
    let of = |findings: &[Finding]| {
        findings.iter().filter(|f| f.status == Status::Differs).map(name).collect::<BTreeSet<_>>()
    };
    let known = of(&audit());
    // Each kind of nonsense once; more if more cases are asked for, as `make soak` does.
    let (most, together) = if std::env::var_os("PROPTEST_CASES").is_some() { (2, 1) } else { (1, 8) };
    let mut guessed = Vec::new();
    let mut seen = BTreeMap::new();
    let mut chosen = Vec::new();
    for (path, item) in fixture.tree.all() {
        // Of processors, queues and interrupts that are alike, one or two suffice.
        let kind: String = path.chars().filter(|c| !c.is_ascii_digit()).collect();
        let count = seen.entry(kind).and_modify(|count| *count += 1).or_insert(1);
        if let (Item::File(bytes), true) = (item, *count <= most) {
            chosen.push((fixture.tree.root().join(path), bytes));
        }
    }
    // The files of a round are far apart: neighbours would hide each other's faults.
    let rounds = chosen.len().div_ceil(together);
    for round in 0..rounds {
        let some = || chosen.iter().enumerate().skip(round).step_by(rounds);
        some().for_each(|(at, (path, _))| fs::write(path, NONSENSE[at % NONSENSE.len()]).unwrap());
        audit();
        some().for_each(|(_, (path, bytes))| fs::write(path, bytes).unwrap());
    }
    for (path, bytes) in chosen {
        // A file that is not text cannot be read, which is not a fault.
        fs::write(&path, [0xFF, 0xFE]).unwrap();
        let findings = audit();
        // A port whose state is not known is audited, and its findings are correct.
        let new = of(&findings).into_iter().filter(|(_, of)| of.as_deref() != Some("eno1"));
        guessed.extend(new.filter(|found| !known.contains(found)).map(|found| (path.clone(), found)));
        fs::write(&path, bytes).unwrap();
    }
    assert!(guessed.is_empty(), "{guessed:#?}");
}

fn name(finding: &Finding) -> (String, Option<String>) {
    (finding.id.clone(), finding.subject.clone())
}

#[test]
fn each_rule_finds_a_fault_on_some_host() {
    let found: BTreeSet<&str> =
        [NEGLECTED, RAID, VIRTUAL].iter().flat_map(|faults| faults.iter()).map(|fault| fault.0).collect();
    for rule in rules().unwrap() {
        let excused = matches!(rule.want, Want::Report(_)) || NEVER_DIFFER.iter().any(|(id, _)| *id == rule.id);
        assert!(
            found.contains(rule.id.as_str()) != excused,
            "{}: in no list of faults, or excused although a host violates it",
            rule.id
        );
    }
}

#[test]
fn an_audit_takes_little_processor_time() {
    for (name, disks) in [("neglected-100g", &["nvme0n1"][..]), ("nvme-raid", &RAID_DISKS)] {
        let fixture = AuditFixture::at(name, FAR, disks);
        let before = sys::clock::thread_cpu();
        fixture.audit();
        let spent = sys::clock::thread_cpu() - before;
        assert!(spent < Duration::from_secs(20), "{name}: {spent:?}");
    }
}
