//! Compares the audits of two hosts. Pure: it reads the output of `tune audit --json`, of this release or another.

use serde::{Deserialize, Serialize};

/// An audit, with the fields that are compared. Other fields are ignored.
#[derive(Clone, Debug, Deserialize)]
pub struct Side {
    /// The host.
    pub host: SideHost,
    /// The target, as the audit has it.
    pub target: serde_json::Value,
    /// The rules.
    pub rules: Vec<SideRule>,
}

/// A host.
#[derive(Clone, Debug, Deserialize)]
pub struct SideHost {
    /// Its name; none where it has none.
    pub name: Option<String>,
    /// The release of its kernel.
    pub kernel: Option<String>,
    /// The NICs that were audited.
    pub nics: Vec<SideNic>,
    /// The disks that were audited.
    pub disks: Vec<String>,
}

/// A NIC.
#[derive(Clone, Debug, Deserialize)]
pub struct SideNic {
    /// Its name.
    pub name: String,
}

/// A rule on a subject.
#[derive(Clone, Debug, Deserialize)]
pub struct SideRule {
    /// Its id.
    pub id: String,
    /// Its title.
    pub title: String,
    /// The NIC or disk.
    pub subject: Option<String>,
    /// The observed value.
    pub observed: Option<String>,
    /// The wanted value.
    pub wanted: Option<String>,
    /// The status of the finding.
    pub status: String,
    /// The cost if it is wrong.
    pub severity: String,
    /// The unit of its numbers.
    pub unit: Option<String>,
}

/// The value of a rule on one host, where it differs from that of the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SideValue {
    /// The NIC or disk, by its name on that host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The observed value; none where it is not known.
    pub observed: Option<String>,
    /// The wanted value.
    pub wanted: Option<String>,
    /// The status: `ok`, `differs`, `unknown`, `not_applicable`.
    pub status: String,
}

/// A rule whose values differ between two hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Drift {
    /// The rule.
    pub rule: String,
    /// Its title.
    pub title: String,
    /// The cost if it is wrong.
    pub severity: String,
    /// The unit of its numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// The first host.
    pub a: SideValue,
    /// The second.
    pub b: SideValue,
    /// The host that should change: `a`, `b`, `both`; `neither` if both are as wanted, or nothing is wanted.
    pub change: &'static str,
}

/// The differences, the most severe first. A rule that is unknown on one of the two is left out, and so are rules whose values always
/// differ, such as counters (`always_differs`).
pub fn drift(a: &Side, b: &Side, always_differs: &dyn Fn(&str) -> bool) -> Vec<Drift> {
    let pairs = pairs(&a.host, &b.host);
    let mut found = Vec::new();
    for ours in a.rules.iter().filter(|rule| !always_differs(&rule.id)) {
        let theirs = pairs
            .iter()
            .filter(|(subject, _)| *subject == ours.subject)
            .find_map(|(_, subject)| b.rules.iter().find(|rule| rule.id == ours.id && rule.subject == *subject));
        if let Some(theirs) = theirs {
            found.extend(drift_of(ours, theirs));
        }
    }
    found.sort_by_key(|drift| (drift.change == "neither", std::cmp::Reverse(weight(&drift.severity))));
    found
}

/// NICs and disks of each host that have no counterpart on the other: those of `a`, and those of `b`.
pub fn without_counterpart(a: &Side, b: &Side) -> (Vec<String>, Vec<String>) {
    let pairs = pairs(&a.host, &b.host);
    let names = |host: &SideHost| {
        let nics = host.nics.iter().map(|nic| nic.name.clone());
        nics.chain(host.disks.iter().cloned()).collect::<Vec<_>>()
    };
    let unpaired = |host: &SideHost, paired: &dyn Fn(&String) -> bool| {
        names(host).into_iter().filter(|name| !paired(name)).collect::<Vec<_>>()
    };
    let of_a = unpaired(&a.host, &|name| pairs.iter().any(|(ours, _)| ours.as_ref() == Some(name)));
    let of_b = unpaired(&b.host, &|name| pairs.iter().any(|(_, theirs)| theirs.as_ref() == Some(name)));
    (of_a, of_b)
}

fn drift_of(a: &SideRule, b: &SideRule) -> Option<Drift> {
    if a.observed == b.observed || a.observed.is_none() || b.observed.is_none() {
        return None;
    }
    let value_of = |rule: &SideRule| SideValue {
        subject: rule.subject.clone(),
        observed: rule.observed.clone(),
        wanted: rule.wanted.clone(),
        status: rule.status.clone(),
    };
    let change = match (a.status == "differs", b.status == "differs") {
        (true, true) => "both",
        (true, false) => "a",
        (false, true) => "b",
        (false, false) => "neither",
    };
    let rule = a.id.clone();
    let title = a.title.clone();
    let severity = a.severity.clone();
    Some(Drift { rule, title, severity, unit: a.unit.clone(), a: value_of(a), b: value_of(b), change })
}

fn weight(severity: &str) -> u8 {
    match severity {
        "high" => 3,
        "medium" => 2,
        "low" => 1,
        _ => 0,
    }
}

/// Pairs the subjects of two hosts: the hosts themselves; subjects with equal names; then the rest in their order, since the same card has
/// another name on another board.
fn pairs(a: &SideHost, b: &SideHost) -> Vec<(Option<String>, Option<String>)> {
    let nics = |host: &SideHost| host.nics.iter().map(|nic| nic.name.clone()).collect::<Vec<_>>();
    let mut pairs = vec![(None, None)];
    for (ours, theirs) in [(nics(a), nics(b)), (a.disks.clone(), b.disks.clone())] {
        let (same, other): (Vec<_>, Vec<_>) = ours.into_iter().partition(|name| theirs.contains(name));
        let rest = theirs.iter().filter(|name| !same.contains(name)).cloned();
        pairs.extend(other.into_iter().zip(rest).map(|(ours, theirs)| (Some(ours), Some(theirs))));
        pairs.extend(same.into_iter().map(|name| (Some(name.clone()), Some(name))));
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(nic: &str, rules: &[(&str, Option<&str>, &str, &str, &str)]) -> Side {
        let rules: Vec<serde_json::Value> = rules
            .iter()
            .map(|(id, subject, observed, status, severity)| {
                serde_json::json!({ "id": id, "title": "t", "subject": subject, "observed": observed, "wanted": "w",
                    "status": status, "severity": severity, "new_field": 1 })
            })
            .collect();
        let host = serde_json::json!({ "name": "h", "kernel": "6.1", "nics": [{ "name": nic, "speed_bit_s": 1 }], "disks": [] });
        serde_json::from_value(serde_json::json!({ "schema": 1, "host": host, "target": {}, "rules": rules })).unwrap()
    }

    #[test]
    fn drift_names_the_host_that_should_change() {
        let a = side(
            "ens1",
            &[
                ("T07", None, "1", "ok", "high"),
                ("N01", Some("ens1"), "9000", "ok", "high"),
                ("T11", None, "cubic", "differs", "medium"),
                ("K01", None, "6.1", "ok", "info"),
                ("N18", Some("ens1"), "3", "differs", "medium"),
                ("T99", None, "1", "ok", "high"),
            ],
        );
        let b = side(
            "eth0",
            &[
                ("T07", None, "0", "differs", "high"),
                ("N01", Some("eth0"), "1500", "differs", "high"),
                ("T11", None, "reno", "differs", "medium"),
                ("K01", None, "6.5", "ok", "info"),
                ("N18", Some("eth0"), "9", "differs", "medium"),
            ],
        );
        let found = drift(&a, &b, &|id| id == "N18");
        let found_changes: Vec<_> = found.iter().map(|d| (d.rule.as_str(), d.change)).collect();
        assert_eq!(found_changes, [("T07", "b"), ("N01", "b"), ("T11", "both"), ("K01", "neither")]);
        assert_eq!(found[1].b.subject.as_deref(), Some("eth0"));
        assert_eq!(drift(&a, &a, &|_| false), []);
        assert_eq!(without_counterpart(&a, &b), (vec![], vec![]));
        let mut more = b.clone();
        more.host.nics.push(SideNic { name: "eth1".into() });
        assert_eq!(without_counterpart(&a, &more), (vec![], vec!["eth1".to_owned()]));
    }

    #[test]
    fn equal_names_are_paired() {
        let host = |nics: &[&str]| SideHost {
            name: None,
            kernel: None,
            nics: nics.iter().map(|name| SideNic { name: (*name).into() }).collect(),
            disks: Vec::new(),
        };
        let found = pairs(&host(&["ens1", "ens2"]), &host(&["ens2", "mlx0", "mlx1"]));
        let name = |name: &str| Some(name.to_owned());
        assert_eq!(found, [(None, None), (name("ens1"), name("mlx0")), (name("ens2"), name("ens2"))]);
    }
}
