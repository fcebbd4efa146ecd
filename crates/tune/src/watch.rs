//! Watches a host for growing counters of drops and for changed settings. Pure: it compares audits.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::apply::Snapshot;
use crate::audit::{Audit, Finding, Status};
use crate::host::Host;
use crate::judge::selected;
use crate::rule::{Nature, Severity};

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// A counter grew.
    Grew,
    /// A value is no longer as wanted, or is another wrong value.
    Clobbered,
    /// A value has changed, and is as wanted.
    Changed,
    /// A value that `apply` had set has changed.
    Undone,
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Event {
    /// Its kind.
    pub what: EventKind,
    /// The rule.
    pub rule: String,
    /// Its title.
    pub title: String,
    /// The NIC or disk; none for the whole host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The value before.
    pub from: String,
    /// The value now.
    pub to: String,
    /// The cost if it is wrong.
    pub severity: Severity,
    /// Programs on this host that are known to change such values.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub suspects: Vec<String>,
}

/// Rules that point to a program that sets values: a profile of tuned, files that set the same ones.
const SUSPECTS: [&str; 2] = ["K02", "K03a"];

/// A rule on a subject.
type FindingKey = (String, Option<String>);

/// The values of the last audit.
#[derive(Debug, Default)]
pub struct Watch {
    last: BTreeMap<FindingKey, (String, Status)>,
}

impl Watch {
    /// Begins with the values of an audit.
    pub fn begin(audit: &Audit) -> Watch {
        let mut watch = Watch::default();
        watch.compare(audit);
        watch
    }

    /// The events since the last audit. A value that cannot be read now is compared once it can be read again.
    pub fn compare(&mut self, audit: &Audit) -> Vec<Event> {
        let suspects = suspects(audit);
        let mut events = Vec::new();
        for finding in &audit.findings {
            let Some(now) = &finding.observed else { continue };
            let key = (finding.id.clone(), finding.subject.clone());
            if let Some((from, was)) = self.last.insert(key, (now.clone(), finding.status)) {
                events.extend(event_of(finding, from, was, now.clone(), &suspects));
            }
        }
        events
    }
}

fn event_of(finding: &Finding, from: String, was: Status, to: String, suspects: &[String]) -> Option<Event> {
    if from == to {
        return None;
    }
    let what = match (finding.nature, finding.status) {
        (Nature::Counter, _) => {
            // A counter that went down was reset: the driver was loaded again.
            let grew = matches!((from.parse::<f64>(), to.parse::<f64>()), (Ok(from), Ok(to)) if to > from);
            grew.then_some(EventKind::Grew)?
        }
        (Nature::Passing, now) if now == was => return None,
        (_, Status::Differs) => EventKind::Clobbered,
        _ => EventKind::Changed,
    };
    let suspects = if what == EventKind::Grew { Vec::new() } else { suspects.to_vec() };
    Some(Event { what, from, to, suspects, ..event(finding) })
}

fn event(finding: &Finding) -> Event {
    Event {
        what: EventKind::Changed,
        rule: finding.id.clone(),
        title: finding.title.clone(),
        subject: finding.subject.clone(),
        from: String::new(),
        to: String::new(),
        severity: finding.severity,
        suspects: Vec::new(),
    }
}

fn suspects(audit: &Audit) -> Vec<String> {
    let findings = audit.findings.iter().filter(|f| SUSPECTS.contains(&f.id.as_str()) && f.status == Status::Differs);
    findings.filter_map(|f| Some(format!("{}: {}", f.title.to_lowercase(), f.observed.as_ref()?))).collect()
}

/// The values that `apply` had set, by its snapshots (the oldest first), and that are different now: changed by something else, or lost at
/// a restart because they were not persistent.
pub fn lost_changes(host: &dyn Host, snapshots: &[Snapshot], audit: &Audit) -> Vec<Event> {
    let (_, boot) = crate::apply::identity(host);
    let mut set = BTreeMap::new();
    for snapshot in snapshots {
        for change in &snapshot.changes {
            set.insert(change.place.clone(), (change, snapshot.boot == boot));
        }
    }
    let mut events = Vec::new();
    for (place, (change, this_boot)) in set {
        let Ok(now) = place.read(host) else { continue };
        let now = selected(&now).to_owned();
        if now.split_whitespace().eq(change.after.split_whitespace()) {
            continue;
        }
        let finding = change.ids.iter().find_map(|id| audit.findings.iter().find(|finding| finding.id == *id));
        let Some(finding) = finding else { continue };
        let suspects = if this_boot {
            suspects(audit)
        } else {
            vec!["the host was restarted; with --persist the value would have lasted".to_owned()]
        };
        let subject = Some(place.to_string());
        events.push(Event {
            what: EventKind::Undone,
            from: change.after.clone(),
            to: now,
            subject,
            suspects,
            ..event(finding)
        });
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::rules;
    use crate::subjects::Subjects;
    use crate::target::Target;

    fn audit(files: &[(&str, &str)]) -> Audit {
        let dir = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let path = dir.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let host = crate::host::Recorded::new(dir.path());
        Audit::of(&host, &rules().unwrap(), &Target::default(), &Subjects::default())
    }

    const SACK: &str = "proc/sys/net/ipv4/tcp_sack";
    const SOFTNET: &str = "proc/net/softnet_stat";
    const QUIET: &str =
        "00000001 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000\n";
    const DROPS: &str =
        "00000001 00000010 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000\n";

    #[test]
    fn changed_values_and_growing_counters_are_reported_once() {
        let mut watch = Watch::begin(&audit(&[(SACK, "1"), (SOFTNET, QUIET)]));
        assert_eq!(watch.compare(&audit(&[(SACK, "1"), (SOFTNET, QUIET)])), []);
        let events = watch.compare(&audit(&[(SACK, "0"), (SOFTNET, DROPS)]));
        let reported: Vec<_> =
            events.iter().map(|e| (e.rule.as_str(), e.what, e.from.as_str(), e.to.as_str())).collect();
        assert!(reported.contains(&("T07", EventKind::Clobbered, "1", "0")), "{reported:?}");
        assert!(reported.contains(&("N18c", EventKind::Grew, "0", "16")), "{reported:?}");
        assert_eq!(watch.compare(&audit(&[(SACK, "0"), (SOFTNET, DROPS)])), []);
        let events = watch.compare(&audit(&[(SACK, "1"), (SOFTNET, QUIET)]));
        let reported: Vec<_> = events.iter().map(|e| (e.rule.as_str(), e.what)).collect();
        assert_eq!(reported, [("T07", EventKind::Changed)], "a counter that was reset did not grow");
    }

    #[test]
    fn a_value_that_was_unreadable_for_a_time_is_compared_later() {
        let mut watch = Watch::begin(&audit(&[(SACK, "1")]));
        assert_eq!(watch.compare(&audit(&[])), []);
        assert_eq!(watch.compare(&audit(&[(SACK, "0")])).len(), 1);
    }
}
