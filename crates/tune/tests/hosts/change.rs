//! Changes of the neglected host: everything that can be changed, nothing where the kernel refuses, and everything is restored.

use std::fs;

use super::tree::Tree;
use super::{Audit, Status, neglected};
use tune::apply::{self, ApplyError};
use tune::plan::{Change, PlanError, SettingLocation, plan, script};
use tune::rule::Means;

#[test]
fn what_can_be_changed_is_and_comes_back_byte_for_byte() {
    let looked = neglected();
    let (host, state) = (looked.tree.host(), tempfile::tempdir().unwrap());
    let before = looked.tree.all();
    let Audit { findings } = looked.audit();
    let changes = plan(&host, &looked.rules, &findings, &looked.subjects, &[]).unwrap();
    let asked: Vec<&String> = changes.iter().flat_map(|change| &change.ids).collect();
    let ours = findings.iter().filter(|f| f.status == Status::Differs && f.set != Means::Manual);
    let left: Vec<&String> = ours.map(|finding| &finding.id).filter(|id| !asked.contains(id)).collect();
    assert!(left.is_empty(), "nobody changes {left:?}");

    let snapshot = apply::apply(&host, &changes, state.path(), "2026-01-01 00:00", true).unwrap();
    let after = looked.audit();
    let still: Vec<_> = after.findings.iter().filter(|f| f.status != Status::Ok && asked.contains(&&f.id)).collect();
    assert!(still.is_empty(), "{still:#?}");
    let status = |id: &str| after.findings.iter().find(|finding| finding.id == id).unwrap().status;
    assert_eq!(
        (status("K03"), status("K02")),
        (Status::Ok, Status::Differs),
        "what is made to last, and what is not ours"
    );

    apply::undo(&host, &apply::read(&host, &snapshot).unwrap()).unwrap();
    same(&looked.tree, &before);
}

fn same(tree: &Tree, before: &std::collections::BTreeMap<String, super::tree::Item>) {
    let now = tree.all();
    let gone: Vec<_> = before.iter().filter(|(path, item)| now.get(*path) != Some(*item)).collect();
    let new: Vec<_> = now.keys().filter(|path| !before.contains_key(*path)).collect();
    assert!(gone.is_empty() && new.is_empty(), "not as it was {gone:?}, and new {new:?}");
}

#[test]
fn a_refusal_at_any_place_leaves_nothing_changed() {
    let looked = neglected();
    let before = looked.tree.all();
    let Audit { findings } = looked.audit();
    let changes = plan(&looked.tree.host(), &looked.rules, &findings, &looked.subjects, &[]).unwrap();
    let state = tempfile::tempdir().unwrap();
    for (at, end) in
        ["net/ipv4/tcp_sack", "vm/dirty_bytes", "ring.rx", "queue/scheduler", "qdisc.children"].iter().enumerate()
    {
        let host = looked.tree.host();
        host.refuse(end);
        let error = apply::apply(&host, &changes, state.path(), &at.to_string(), true).unwrap_err();
        assert!(matches!(&error, ApplyError::Refused { undone, .. } if undone.left.is_empty()), "{end}: {error}");
        same(&looked.tree, &before);
    }
}

#[test]
fn a_snapshot_of_another_host_is_refused() {
    let (looked, other) = (neglected(), Tree::unpack("two-sockets-100g"));
    let (host, state) = (looked.tree.host(), tempfile::tempdir().unwrap());
    let Audit { findings } = looked.audit();
    let changes = plan(&host, &looked.rules, &findings, &looked.subjects, &["T07".into()]).unwrap();
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
fn what_is_not_for_this_program_is_refused_with_the_way_by_hand() {
    let looked = neglected();
    let Audit { findings } = looked.audit();
    let only = |id: &str| plan(&looked.tree.host(), &looked.rules, &findings, &looked.subjects, &[id.into()]);
    assert_eq!(only("X99"), Err(PlanError::NoRule("X99".into())));
    assert!(matches!(only("K02"), Err(PlanError::NotOurs { why, .. }) if why.contains("tuned-adm profile")));
    let changes: Vec<Change> = only("T03").unwrap();
    assert_eq!(changes[0].after, "4096 131072 2147483647", "the other numbers stay");
    // A choice is set to one of its words, and restored to one of them.
    let changes = only("D08").unwrap();
    assert_eq!((changes[0].before.as_str(), changes[0].after.as_str()), ("always", "madvise"));
}

/// The commands for a person make the same changes as this program.
#[test]
fn the_script_says_all_of_each_change() {
    let looked = neglected();
    let Audit { findings } = looked.audit();
    let changes = plan(&looked.tree.host(), &looked.rules, &findings, &looked.subjects, &[]).unwrap();
    for change in changes.iter().filter(|change| !change.follows) {
        assert!(!change.command.contains('{'), "a place that was not filled in: {change:?}");
        let SettingLocation::Sysctl(name) = &change.place else { continue };
        let value = change.command.strip_prefix(&format!("sysctl -w {name}=")).map(|value| value.trim_matches('\''));
        assert_eq!(value, Some(change.after.as_str()), "{change:?}");
    }
    let script = script(&changes);
    assert_eq!(script.lines().filter(|line| line.contains("scaling_governor") && !line.starts_with('#')).count(), 1);
}
