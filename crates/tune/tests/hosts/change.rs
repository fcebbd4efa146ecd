//! Changes of the neglected host: everything that can be changed is changed, nothing if the kernel refuses, and everything is restored.

use std::fs;

use super::tree::Tree;
use super::{Audit, Status, neglected};
use tune::apply::{self, ApplyError};
use tune::plan::{Change, PlanError, SettingLocation, plan, script};
use tune::rule::ChangeMethod;

#[test]
fn every_change_is_made_and_restored_byte_for_byte() {
    let fixture = neglected();
    let host = fixture.tree.host();
    let state = tempfile::tempdir().unwrap();
    let before = fixture.tree.all();
    let Audit { findings } = fixture.audit();
    let changes = plan(&host, &fixture.rules, &findings, &fixture.subjects, &[]).unwrap();
    let planned: Vec<&String> = changes.iter().flat_map(|change| &change.ids).collect();
    let changeable = findings.iter().filter(|f| f.status == Status::Differs && f.set != ChangeMethod::Manual);
    let left: Vec<&String> = changeable.map(|finding| &finding.id).filter(|id| !planned.contains(id)).collect();
    assert!(left.is_empty(), "not planned: {left:?}");

    let snapshot = apply::apply(&host, &changes, state.path(), "2026-01-01 00:00", true).unwrap();
    let after = fixture.audit();
    let still: Vec<_> = after.findings.iter().filter(|f| f.status != Status::Ok && planned.contains(&&f.id)).collect();
    assert!(still.is_empty(), "{still:#?}");
    let status = |id: &str| after.findings.iter().find(|finding| finding.id == id).unwrap().status;
    assert_eq!(
        (status("K03"), status("K02")),
        (Status::Ok, Status::Differs),
        "what is made persistent, and what this program cannot change"
    );

    apply::undo(&host, &apply::read(&host, &snapshot).unwrap()).unwrap();
    assert_unchanged(&fixture.tree, &before);
}

fn assert_unchanged(tree: &Tree, before: &std::collections::BTreeMap<String, super::tree::Item>) {
    let now = tree.all();
    let gone: Vec<_> = before.iter().filter(|(path, item)| now.get(*path) != Some(*item)).collect();
    let new: Vec<_> = now.keys().filter(|path| !before.contains_key(*path)).collect();
    assert!(gone.is_empty() && new.is_empty(), "changed or missing: {gone:?}, new: {new:?}");
}

#[test]
fn a_refusal_at_any_place_leaves_nothing_changed() {
    let fixture = neglected();
    let before = fixture.tree.all();
    let Audit { findings } = fixture.audit();
    let changes = plan(&fixture.tree.host(), &fixture.rules, &findings, &fixture.subjects, &[]).unwrap();
    let state = tempfile::tempdir().unwrap();
    for (at, end) in
        ["net/ipv4/tcp_sack", "vm/dirty_bytes", "ring.rx", "queue/scheduler", "qdisc.children"].iter().enumerate()
    {
        let host = fixture.tree.host();
        host.refuse(end);
        let error = apply::apply(&host, &changes, state.path(), &at.to_string(), true).unwrap_err();
        assert!(
            matches!(&error, ApplyError::Refused { undone, .. } if undone.not_restored.is_empty()),
            "{end}: {error}"
        );
        assert_unchanged(&fixture.tree, &before);
    }
}

#[test]
fn a_snapshot_of_another_host_is_refused() {
    let fixture = neglected();
    let other = Tree::unpack("two-sockets-100g");
    let host = fixture.tree.host();
    let state = tempfile::tempdir().unwrap();
    let Audit { findings } = fixture.audit();
    let changes = plan(&host, &fixture.rules, &findings, &fixture.subjects, &["T07".into()]).unwrap();
    assert_eq!(changes.len(), 1);
    let snapshot = apply::apply(&host, &changes, state.path(), "now", false).unwrap();
    let error = apply::read(&other.host(), &snapshot).unwrap_err();
    assert!(matches!(error, ApplyError::OtherHost { .. }), "{error}");
    apply::read(&host, &snapshot).unwrap();
    let cut = &fs::read(&snapshot).unwrap()[..100];
    fs::write(&snapshot, cut).unwrap();
    assert!(matches!(apply::read(&host, &snapshot), Err(ApplyError::NoSnapshot { .. })), "half a snapshot");
}

#[test]
fn rules_that_a_person_must_apply_are_refused_with_the_command() {
    let fixture = neglected();
    let Audit { findings } = fixture.audit();
    let only = |id: &str| plan(&fixture.tree.host(), &fixture.rules, &findings, &fixture.subjects, &[id.into()]);
    assert_eq!(only("X99"), Err(PlanError::NoRule("X99".into())));
    assert!(matches!(only("K02"), Err(PlanError::NotChangeable { why, .. }) if why.contains("tuned-adm profile")));
    let changes: Vec<Change> = only("T03").unwrap();
    assert_eq!(changes[0].after, "4096 131072 2147483647", "the other numbers stay");
    // A choice is set to one of its words, and restored to one of them.
    let changes = only("D08").unwrap();
    assert_eq!((changes[0].before.as_str(), changes[0].after.as_str()), ("always", "madvise"));
}

/// The commands that a person runs make the same changes as this program.
#[test]
fn the_script_makes_each_change_completely() {
    let fixture = neglected();
    let Audit { findings } = fixture.audit();
    let changes = plan(&fixture.tree.host(), &fixture.rules, &findings, &fixture.subjects, &[]).unwrap();
    for change in changes.iter().filter(|change| !change.follows) {
        assert!(!change.command.contains('{'), "a placeholder that was not filled in: {change:?}");
        let SettingLocation::Sysctl(name) = &change.place else { continue };
        let value = change.command.strip_prefix(&format!("sysctl -w {name}=")).map(|value| value.trim_matches('\''));
        assert_eq!(value, Some(change.after.as_str()), "{change:?}");
    }
    let script = script(&changes);
    assert_eq!(script.lines().filter(|line| line.contains("scaling_governor") && !line.starts_with('#')).count(), 1);
}
