//! Single rules on hosts with small changes: faults, values that are only shown, and changes that are left to a person.

use std::fs;

use super::{AuditFixture, FAR, Finding, Status, Target, neglected};
use tune::plan::{PlanError, plan};
use tune::rule::{ChangeMethod, Want, rules};
use tune::subjects::Subjects;

const NIC: &str = "ens1f0np0";

/// An audit of a host with some files replaced, for a target.
fn fixture_with(name: &str, target: Target, files: &[(&str, &str)]) -> AuditFixture {
    let fixture = AuditFixture::at(name, target, &["nvme0n1"]);
    for (path, text) in files {
        let at = fixture.tree.root().join(path);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        fs::write(at, text).unwrap();
    }
    let subjects = Subjects::find(&fixture.tree.host(), &[], fixture.subjects.disks.clone());
    AuditFixture { subjects, ..fixture }
}

fn finding_of(fixture: &AuditFixture, id: &str, nic: &str) -> Finding {
    let findings = fixture.audit().findings;
    findings.into_iter().find(|f| f.id == id && f.subject.as_deref().is_none_or(|is| is == nic)).unwrap()
}

#[test]
fn a_nic_with_several_queues_wants_one_discipline_for_each() {
    let statuses = |root: &str| {
        let fixture = fixture_with("two-sockets-100g", FAR, &[(&format!("netlink/{NIC}/qdisc"), root)]);
        ["T20", "T20b"].map(|id| finding_of(&fixture, id, NIC).status)
    };
    assert_eq!(statuses("mq"), [Status::NotApplicable, Status::Ok]);
    assert_eq!(statuses("fq"), [Status::NotApplicable, Status::Differs], "one lock for all");
    let fixture = fixture_with("virtual-10g", FAR, &[]);
    assert_eq!(
        ["T20", "T20b", "T20a"].map(|id| finding_of(&fixture, id, "enp1s0").status),
        [Status::Differs, Status::NotApplicable, Status::NotApplicable]
    );
    // Of its several queues, one is in use.
    let fixture =
        fixture_with("virtual-10g", FAR, &[("netlink/enp1s0/qdisc", "mq"), ("netlink/enp1s0/qdisc.children", "pfifo")]);
    assert_eq!(
        ["T20", "T20b", "T20a"].map(|id| finding_of(&fixture, id, "enp1s0").status),
        [Status::NotApplicable, Status::Ok, Status::Differs]
    );
}

#[test]
fn a_configured_shaper_is_left_to_a_person() {
    let root = format!("netlink/{NIC}/qdisc");
    let children = format!("netlink/{NIC}/qdisc.children");
    for (root_is, children_are, id) in [("htb", "pfifo", "T20b"), ("htb", "pfifo", "T20a"), ("mq", "fq tbf", "T20a")] {
        let fixture = fixture_with("two-sockets-100g", FAR, &[(&root, root_is), (&children, children_are)]);
        let finding = finding_of(&fixture, id, NIC);
        assert_eq!((finding.status, finding.writable), (Status::Differs, false), "{finding:?}");
        assert_eq!(finding.set, ChangeMethod::Manual, "root does not change it either");
        assert!(finding.note.as_ref().is_some_and(|note| note.contains("by hand")), "{finding:?}");
        let host = fixture.tree.host();
        let findings = fixture.audit().findings;
        let made = |only: &[String]| plan(&host, &fixture.rules, &findings, &fixture.subjects, only);
        assert_eq!(made(&[]), Ok(Vec::new()), "nothing is changed");
        assert!(matches!(made(&[id.into()]), Err(PlanError::NotChangeable { why, .. }) if why.contains("by hand")));
    }
    let single = fixture_with("virtual-10g", FAR, &[("netlink/enp1s0/qdisc", "tbf")]);
    let finding = finding_of(&single, "T20", "enp1s0");
    assert_eq!((finding.status, finding.writable), (Status::Differs, false), "{finding:?}");
    let plain = fixture_with("virtual-10g", FAR, &[("netlink/enp1s0/qdisc", "fq_codel")]);
    assert!(finding_of(&plain, "T20", "enp1s0").writable);
}

#[test]
fn adaptive_coalescing_is_switched_off_before_numbers_are_set() {
    let rules = rules().unwrap();
    let at = |id: &str| rules.iter().position(|rule| rule.id == id).unwrap();
    assert!(at("N06") < at("N05") && at("N06") < at("N05a"));
    let fixture = neglected();
    let findings = fixture.audit().findings;
    let changes = plan(&fixture.tree.host(), &fixture.rules, &findings, &fixture.subjects, &[]).unwrap();
    let at = |id: &str| changes.iter().position(|change| change.ids.iter().any(|its| its == id)).unwrap();
    assert!(at("N06") < at("N05"));
}

#[test]
fn a_link_is_compared_with_the_named_rate_and_only_on_nics_for_data() {
    let management = ["type == 1", "operstate == up", "speed == 1000", "device/numa_node == 0"];
    let files: Vec<(String, &str)> = management
        .iter()
        .map(|line| line.split_once(" == ").unwrap())
        .map(|(what, is)| (format!("sys/class/net/eno1/{what}"), is))
        .collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    let fixture = fixture_with("neglected-100g", FAR, &files);
    assert_eq!(fixture.subjects.nics.len(), 2);
    let statuses = |fixture: &AuditFixture, id: &str| [NIC, "eno1"].map(|nic| finding_of(fixture, id, nic).status);
    assert_eq!(statuses(&fixture, "N16"), [Status::Differs, Status::NotApplicable], "40 Gbit/s of 100, and management");
    let named = Subjects::find(&fixture.tree.host(), &[NIC.into(), "eno1".into()], Vec::new());
    assert_eq!(
        statuses(&AuditFixture { subjects: named, ..fixture }, "N16"),
        [Status::Differs; 2],
        "the user named both"
    );
    let own = fixture_with("neglected-100g", Target { rate_bit_s: None, ..FAR }, &files);
    assert_eq!(statuses(&own, "N16"), [Status::NotApplicable; 2], "it would be compared with itself");
    assert_eq!(finding_of(&own, "N16b", NIC).observed.as_deref(), Some("40000000000"));
}

#[test]
fn counters_since_boot_are_shown_and_not_judged() {
    let fixture = neglected();
    for (id, count) in
        [("N15a", "93"), ("N18", "4711"), ("N18a", "88123"), ("N18b", "17"), ("N18c", "32"), ("S01", "40000")]
    {
        let finding = finding_of(&fixture, id, NIC);
        assert_eq!((finding.status, finding.observed.as_deref()), (Status::Ok, Some(count)), "{id}");
        let rule = fixture.rules.iter().find(|rule| rule.id == id).unwrap();
        assert!(matches!(rule.want, Want::Report(true)) && rule.nature != tune::rule::Nature::Setting, "{id}");
    }
}

#[test]
fn huge_pages_are_left_to_a_person() {
    let finding = finding_of(&neglected(), "D09", NIC);
    assert_eq!((finding.status, finding.writable), (Status::Differs, false));
    assert!(finding.command.contains("Hugepagesize"), "their size decides: {}", finding.command);
}

#[test]
fn unwritten_data_are_bounded_on_both_sides() {
    let statuses = |bytes: &str| {
        let fixture = fixture_with("two-sockets-100g", FAR, &[("proc/sys/vm/dirty_bytes", bytes)]);
        ["D06b", "D06c"].map(|id| finding_of(&fixture, id, NIC).status)
    };
    assert_eq!(statuses("0"), [Status::Ok, Status::Differs], "a share of the memory");
    assert_eq!(statuses("8589934592"), [Status::Ok, Status::Ok], "less than a tenth of it");
    assert_eq!(statuses("137438953472"), [Status::Differs, Status::Ok]);
    let fixture = neglected();
    let findings = fixture.audit().findings;
    let changes = plan(&fixture.tree.host(), &fixture.rules, &findings, &fixture.subjects, &["D06c".into()]).unwrap();
    assert_eq!(changes[0].after, "8589934592");
}

#[test]
fn the_page_size_of_the_host_is_used() {
    let wanted = |pagesize: &str, id: &str| {
        finding_of(&fixture_with("neglected-100g", FAR, &[("pagesize", pagesize)]), id, NIC).wanted.unwrap()
    };
    assert_eq!((wanted("4096", "T26"), wanted("65536", "T26")), ("at least 152588".into(), "at least 9537".into()));
    assert_eq!((wanted("4096", "T05"), wanted("65536", "T05")), ("at least 2097152".into(), "at least 131072".into()));
    let odd = fixture_with("neglected-100g", FAR, &[("pagesize", "many")]);
    assert_eq!(finding_of(&odd, "T05", NIC).status, Status::Unknown);
}

#[test]
fn loadable_modules_are_unknown_without_the_lists_of_modules() {
    let files = [("proc/modules", ""), ("proc/sys/net/core/default_qdisc", "pfifo_fast")];
    let fixture = fixture_with("two-sockets-100g", FAR, &files);
    for id in ["T19", "T20b", "T20a", "K04"] {
        assert_eq!(finding_of(&fixture, id, NIC).status, Status::Unknown, "{id}");
    }
    let fixture = fixture_with(
        "two-sockets-100g",
        FAR,
        &[
            files[0],
            files[1],
            ("lib/modules/6.8.0-45-generic/modules.dep", "kernel/net/sched/sch_fq.ko.zst:\n"),
            ("lib/modules/6.8.0-45-generic/modules.builtin", "kernel/fs/ext4/ext4.ko\n"),
        ],
    );
    assert_eq!(
        (finding_of(&fixture, "T19", NIC).status, finding_of(&fixture, "K04", NIC).status),
        (Status::Differs, Status::NotApplicable)
    );
}

/// If all queues are on one processor, that one serves them all.
#[test]
fn interrupts_on_one_processor_are_not_spread() {
    let paths: Vec<String> = (121..=128).map(|irq| format!("proc/irq/{irq}/smp_affinity_list")).collect();
    let files: Vec<(&str, &str)> = paths.iter().map(|path| (path.as_str(), "8")).collect();
    let fixture = fixture_with("two-sockets-100g", FAR, &files);
    assert_eq!(finding_of(&fixture, "C06", NIC).status, Status::Differs);
    assert_eq!(finding_of(&fixture_with("two-sockets-100g", FAR, &[]), "C06", NIC).status, Status::Ok);
}
