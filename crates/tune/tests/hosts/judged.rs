//! Single rules on hosts with small changes: faults, values that are only shown, and changes that are left to a person.

use std::fs;

use super::{AuditFixture, FAR, Finding, Status, Target, neglected};
use tune::plan::{PlanError, plan};
use tune::rule::{Means, Want, rules};
use tune::subjects::Subjects;

const NIC: &str = "ens1f0np0";

/// An audit of a host with some files replaced, for a target.
fn with(name: &str, target: Target, files: &[(&str, &str)]) -> AuditFixture {
    let looked = AuditFixture::at(name, target, &["nvme0n1"]);
    for (path, text) in files {
        let at = looked.tree.root().join(path);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        fs::write(at, text).unwrap();
    }
    let subjects = Subjects::find(&looked.tree.host(), &[], looked.subjects.disks.clone());
    AuditFixture { subjects, ..looked }
}

fn of(looked: &AuditFixture, id: &str, nic: &str) -> Finding {
    let findings = looked.audit().findings;
    findings.into_iter().find(|f| f.id == id && f.subject.as_deref().is_none_or(|is| is == nic)).unwrap()
}

#[test]
fn a_nic_with_several_queues_wants_one_discipline_for_each() {
    let stands = |root: &str| {
        let looked = with("two-sockets-100g", FAR, &[(&format!("netlink/{NIC}/qdisc"), root)]);
        ["T20", "T20b"].map(|id| of(&looked, id, NIC).status)
    };
    assert_eq!(stands("mq"), [Status::NotApplicable, Status::Ok]);
    assert_eq!(stands("fq"), [Status::NotApplicable, Status::Differs], "one lock for all");
    let looked = with("virtual-10g", FAR, &[]);
    assert_eq!(
        ["T20", "T20b", "T20a"].map(|id| of(&looked, id, "enp1s0").status),
        [Status::Differs, Status::NotApplicable, Status::NotApplicable]
    );
    // Of several queues, one is in use.
    let looked =
        with("virtual-10g", FAR, &[("netlink/enp1s0/qdisc", "mq"), ("netlink/enp1s0/qdisc.children", "pfifo")]);
    assert_eq!(
        ["T20", "T20b", "T20a"].map(|id| of(&looked, id, "enp1s0").status),
        [Status::NotApplicable, Status::Ok, Status::Differs]
    );
}

#[test]
fn a_shaper_that_somebody_configured_is_left_to_a_person() {
    let root = format!("netlink/{NIC}/qdisc");
    let children = format!("netlink/{NIC}/qdisc.children");
    for (root_is, children_are, id) in [("htb", "pfifo", "T20b"), ("htb", "pfifo", "T20a"), ("mq", "fq tbf", "T20a")] {
        let looked = with("two-sockets-100g", FAR, &[(&root, root_is), (&children, children_are)]);
        let finding = of(&looked, id, NIC);
        assert_eq!((finding.status, finding.writable), (Status::Differs, false), "{finding:?}");
        assert_eq!(finding.set, Means::Manual, "a plan for root has no part of it either");
        assert!(finding.note.as_ref().is_some_and(|note| note.contains("by hand")), "{finding:?}");
        let (host, findings) = (looked.tree.host(), looked.audit().findings);
        let made = |only: &[String]| plan(&host, &looked.rules, &findings, &looked.subjects, only);
        assert_eq!(made(&[]), Ok(Vec::new()), "nothing is changed");
        assert!(matches!(made(&[id.into()]), Err(PlanError::NotOurs { why, .. }) if why.contains("by hand")));
    }
    let single = with("virtual-10g", FAR, &[("netlink/enp1s0/qdisc", "tbf")]);
    let finding = of(&single, "T20", "enp1s0");
    assert_eq!((finding.status, finding.writable), (Status::Differs, false), "{finding:?}");
    let plain = with("virtual-10g", FAR, &[("netlink/enp1s0/qdisc", "fq_codel")]);
    assert!(of(&plain, "T20", "enp1s0").writable);
}

#[test]
fn what_adapts_is_switched_off_before_a_number_is_set() {
    let rules = rules().unwrap();
    let at = |id: &str| rules.iter().position(|rule| rule.id == id).unwrap();
    assert!(at("N06") < at("N05") && at("N06") < at("N05a"));
    let looked = neglected();
    let findings = looked.audit().findings;
    let changes = plan(&looked.tree.host(), &looked.rules, &findings, &looked.subjects, &[]).unwrap();
    let at = |id: &str| changes.iter().position(|change| change.ids.iter().any(|its| its == id)).unwrap();
    assert!(at("N06") < at("N05"));
}

#[test]
fn a_link_is_compared_with_what_somebody_says_and_only_where_the_data_are() {
    let management = ["type == 1", "operstate == up", "speed == 1000", "device/numa_node == 0"];
    let files: Vec<(String, &str)> = management
        .iter()
        .map(|line| line.split_once(" == ").unwrap())
        .map(|(what, is)| (format!("sys/class/net/eno1/{what}"), is))
        .collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    let looked = with("neglected-100g", FAR, &files);
    assert_eq!(looked.subjects.nics.len(), 2);
    let stands = |looked: &AuditFixture, id: &str| [NIC, "eno1"].map(|nic| of(looked, id, nic).status);
    assert_eq!(stands(&looked, "N16"), [Status::Differs, Status::NotApplicable], "40 Gbit/s of 100, and management");
    let named = Subjects::find(&looked.tree.host(), &[NIC.into(), "eno1".into()], Vec::new());
    assert_eq!(stands(&AuditFixture { subjects: named, ..looked }, "N16"), [Status::Differs; 2], "somebody wants both");
    let own = with("neglected-100g", Target { rate_bit_s: None, ..FAR }, &files);
    assert_eq!(stands(&own, "N16"), [Status::NotApplicable; 2], "it would be compared with itself");
    assert_eq!(of(&own, "N16b", NIC).observed.as_deref(), Some("40000000000"));
}

#[test]
fn what_counts_since_boot_is_shown_and_not_judged() {
    let looked = neglected();
    for (id, count) in
        [("N15a", "93"), ("N18", "4711"), ("N18a", "88123"), ("N18b", "17"), ("N18c", "32"), ("S01", "40000")]
    {
        let finding = of(&looked, id, NIC);
        assert_eq!((finding.status, finding.observed.as_deref()), (Status::Ok, Some(count)), "{id}");
        let rule = looked.rules.iter().find(|rule| rule.id == id).unwrap();
        assert!(matches!(rule.want, Want::Report(true)) && rule.nature != tune::rule::Nature::Setting, "{id}");
    }
}

#[test]
fn pages_set_aside_are_left_to_a_person() {
    let finding = of(&neglected(), "D09", NIC);
    assert_eq!((finding.status, finding.writable), (Status::Differs, false));
    assert!(finding.command.contains("Hugepagesize"), "their size decides: {}", finding.command);
}

#[test]
fn unwritten_data_are_bounded_on_both_sides() {
    let stands = |bytes: &str| {
        let looked = with("two-sockets-100g", FAR, &[("proc/sys/vm/dirty_bytes", bytes)]);
        ["D06b", "D06c"].map(|id| of(&looked, id, NIC).status)
    };
    assert_eq!(stands("0"), [Status::Ok, Status::Differs], "a share of the memory");
    assert_eq!(stands("8589934592"), [Status::Ok, Status::Ok], "less than a tenth of it");
    assert_eq!(stands("137438953472"), [Status::Differs, Status::Ok]);
    let looked = neglected();
    let findings = looked.audit().findings;
    let changes = plan(&looked.tree.host(), &looked.rules, &findings, &looked.subjects, &["D06c".into()]).unwrap();
    assert_eq!(changes[0].after, "8589934592");
}

#[test]
fn pages_are_as_large_as_the_host_has_them() {
    let wanted =
        |pagesize: &str, id: &str| of(&with("neglected-100g", FAR, &[("pagesize", pagesize)]), id, NIC).wanted.unwrap();
    assert_eq!((wanted("4096", "T26"), wanted("65536", "T26")), ("at least 152588".into(), "at least 9537".into()));
    assert_eq!((wanted("4096", "T05"), wanted("65536", "T05")), ("at least 2097152".into(), "at least 131072".into()));
    let odd = with("neglected-100g", FAR, &[("pagesize", "many")]);
    assert_eq!(of(&odd, "T05", NIC).status, Status::Unknown);
}

#[test]
fn what_the_kernel_could_load_is_unknown_where_nobody_says() {
    let files = [("proc/modules", ""), ("proc/sys/net/core/default_qdisc", "pfifo_fast")];
    let looked = with("two-sockets-100g", FAR, &files);
    for id in ["T19", "T20b", "T20a", "K04"] {
        assert_eq!(of(&looked, id, NIC).status, Status::Unknown, "{id}");
    }
    let looked = with(
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
        (of(&looked, "T19", NIC).status, of(&looked, "K04", NIC).status),
        (Status::Differs, Status::NotApplicable)
    );
}

/// If all queues are on one processor, that one serves them all.
#[test]
fn interrupts_on_one_processor_are_not_spread() {
    let paths: Vec<String> = (121..=128).map(|irq| format!("proc/irq/{irq}/smp_affinity_list")).collect();
    let files: Vec<(&str, &str)> = paths.iter().map(|path| (path.as_str(), "8")).collect();
    let looked = with("two-sockets-100g", FAR, &files);
    assert_eq!(of(&looked, "C06", NIC).status, Status::Differs);
    assert_eq!(of(&with("two-sockets-100g", FAR, &[]), "C06", NIC).status, Status::Ok);
}
