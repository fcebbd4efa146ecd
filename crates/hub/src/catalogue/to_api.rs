//! Turns rows of the catalogue into types of the API.

use std::collections::BTreeMap;

use model::v1::hub::{
    Data, DataEvent, DataKind, DataRemoval, FileReplicas, Metadata, Replica, Rule, RuleLock, RuleState,
};
use replicas::DataName;

use crate::database::catalogue::{
    DataRow, FileRow, HistoryEvent, LockRow, RemovalPreview, ReplicaRow, RuleJobs, RuleRow,
};
use crate::time;
use crate::topology::Topology;

/// The files, bytes and copies that are removed with a name.
pub fn removal(row: &DataRow, preview: &RemovalPreview) -> DataRemoval {
    DataRemoval {
        name: row.name.to_string(),
        files: count(preview.files),
        bytes: count(preview.bytes),
        copies: count(preview.copies),
        kept_files: count(preview.kept_files),
        accounts: preview.accounts(),
    }
}

/// An event of a name.
pub fn event(event: &HistoryEvent, name: &str) -> DataEvent {
    DataEvent {
        number: event.number,
        at: time::show(event.at),
        name: name.to_owned(),
        account: event.account.clone(),
        kind: event.kind.clone(),
        facts: serde_json::from_str(&event.facts).unwrap_or_default(),
    }
}

/// A size or a number of the database; these are not negative.
fn count(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// A name, with its metadata.
pub fn data(row: &DataRow, metadata: &BTreeMap<String, String>) -> Data {
    let is_file = row.kind == DataKind::File;
    let value = |(key, text): (&String, &String)| Some((key.clone(), serde_json::from_str(text).ok()?));
    Data {
        name: row.name.to_string(),
        kind: row.kind,
        account: row.account.clone(),
        created: time::show(row.created),
        changed: time::show(row.changed),
        bytes: count(row.bytes),
        entries: (!is_file).then_some(count(row.entries)),
        adler32: row.adler32.clone(),
        md5: row.md5.clone(),
        open: (!is_file).then_some(row.open),
        monotonic: row.monotonic,
        expires: row.expires.map(time::show),
        metadata: metadata.iter().filter_map(value).collect::<Metadata>(),
        replicas: Vec::new(),
    }
}

/// A file and its copies.
pub fn file(row: &FileRow, topology: &Topology) -> FileReplicas {
    FileReplicas {
        name: row.file.name.to_string(),
        bytes: count(row.file.bytes),
        adler32: row.file.adler32.clone(),
        md5: row.file.md5.clone(),
        replicas: replicas(&row.replicas, &row.file.name, topology),
    }
}

/// The copies of a file.
pub fn replicas(rows: &[ReplicaRow], name: &DataName, topology: &Topology) -> Vec<Replica> {
    rows.iter().map(|copy| replica(copy, name, topology)).collect()
}

fn replica(row: &ReplicaRow, name: &DataName, topology: &Topology) -> Replica {
    let place = topology.storage.get(&row.endpoint);
    Replica {
        endpoint: row.endpoint.clone(),
        state: row.state.word().to_owned(),
        url: place.map(|place| place.url_of(name, row.path.as_deref())).unwrap_or_default(),
        path: row.path.clone(),
        locks: count(row.locks),
        unlocked: row.unlocked.map(time::show),
        attempts: count(row.attempts),
        error: row.error.clone(),
    }
}

/// A rule; `name` is the name that it applies to, if that still exists.
pub fn rule(row: &RuleRow, name: Option<&DataName>) -> Rule {
    Rule {
        id: row.id.clone(),
        name: name.map(ToString::to_string).unwrap_or_default(),
        account: row.account.clone(),
        community: row.community.clone(),
        activity: row.activity.clone(),
        priority: u8::try_from(row.priority).unwrap_or(3),
        copies: u32::try_from(row.copies).unwrap_or(1),
        at: row.expression.clone(),
        grouping: row.grouping,
        weight: row.weight.clone(),
        from: row.source_expression.clone(),
        created: time::show(row.created),
        expires: row.expires.map(time::show),
        deadline: row.deadline.map(time::show),
        fulfilled: row.fulfilled.map(time::show),
        comment: row.comment.clone(),
        state: state(row),
        is_evaluating: row.is_evaluating,
        ok: count(row.ok),
        replicating: count(row.replicating),
        stuck: count(row.stuck),
        bytes: count(row.bytes),
        bytes_left: count(row.bytes_left),
        error: row.error.clone(),
    }
}

/// The state of a rule.
pub fn state(row: &RuleRow) -> RuleState {
    if row.suspended {
        RuleState::Suspended
    } else if row.stuck > 0 || row.error.is_some() {
        RuleState::Stuck
    } else if row.replicating > 0 || row.is_evaluating {
        RuleState::Replicating
    } else {
        RuleState::Ok
    }
}

/// A lock: a rule's hold on a copy of a file.
pub fn lock(row: &LockRow, name: &DataName) -> RuleLock {
    RuleLock {
        name: name.to_string(),
        endpoint: row.endpoint.clone(),
        state: row.state.word().to_owned(),
        bytes: count(row.bytes),
        attempts: count(row.attempts),
        error: row.error.clone(),
        not_before: (row.not_before > 0).then(|| time::show(row.not_before)),
    }
}

/// The state of a rule in one sentence; `stuck` is the reason why one of its copies could not be made.
pub fn sentence(rule: &RuleRow, work: &RuleJobs, stuck: Option<&str>, now: i64) -> String {
    let all = rule.ok + rule.replicating + rule.stuck;
    let done = format!("{} of {all} copies exist, {} are left", rule.ok, model::Bytes(count(rule.bytes_left)));
    if let Some(error) = &rule.error {
        return format!("{done}; some files could not be placed yet: {error}");
    }
    if rule.suspended {
        return format!("{done}; it is suspended: no new copies are made for it");
    }
    match state(rule) {
        RuleState::Ok => format!("all {all} copies exist"),
        RuleState::Stuck => {
            let why = stuck.unwrap_or("the reason is not known");
            format!("{done}; {} could not be made and are tried again: {why}", rule.stuck)
        }
        _ if rule.is_evaluating => format!("{done}; the files of its name are still being evaluated"),
        _ if work.rate > 0 => {
            let rate = model::BitRate(count(work.rate) * 8);
            let when = work.expected(rule.bytes_left, now).map(time::show).unwrap_or_default();
            format!("{done}; {rate} now, the rest is expected by {when}")
        }
        _ if work.jobs.is_empty() => {
            format!("{done}; the rest is submitted when the queue has less work for its endpoints")
        }
        _ => format!("{done}; the rest waits in the queue: GET /api/v1/jobs/{}/why", work.jobs[0]),
    }
}
