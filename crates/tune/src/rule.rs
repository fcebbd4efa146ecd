//! The rules: rows of `rules.toml`, read once and checked when they are.
//!
//! A row says where a value is, what it should be, why, who says so and how it is changed. What it does not say: how a
//! value is read (`read`), and whether this host's is right (`judge`).

use std::collections::BTreeMap;
use std::fmt;

use model::duration;
use model::units::BitRate;
use serde::{Deserialize, Serialize};

/// The table that comes with the program.
const TABLE: &str = include_str!("../rules.toml");

/// A row.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Its name, for ever: `T01`, `N11`, `D06a`.
    pub id: String,
    /// One line.
    pub title: String,
    /// What part of the host it is about.
    pub area: Area,
    /// Where the value is.
    #[serde(deserialize_with = "parsed")]
    pub read: Read,
    /// What it should be.
    pub want: Want,
    /// The unit of its number; none of words and plain numbers.
    pub unit: Option<String>,
    /// What kind of value it is.
    #[serde(default)]
    pub nature: Nature,
    /// Only where all of these hold.
    #[serde(default, deserialize_with = "all_parsed")]
    pub when: Vec<Condition>,
    /// What it costs where it is wrong.
    pub severity: Severity,
    /// Why, for somebody who does not know the setting.
    pub why: String,
    /// Who says so.
    pub source: String,
    /// How that is known.
    pub confidence: Confidence,
    /// What others say, and why this is the default all the same.
    pub conflict: Option<Conflict>,
    /// How it is changed.
    pub set: Means,
    /// The exact command, or what to do, with `{want}`, `{nic}`, `{disk}`.
    pub command: String,
    /// How it survives a reboot.
    pub persist: Persist,
}

/// A part of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Area {
    /// Buffers, windows, congestion control.
    Tcp,
    /// Queueing disciplines, backlogs.
    Queue,
    /// Network cards.
    Nic,
    /// Processors, interrupts.
    Processor,
    /// Memory.
    Memory,
    /// Disks and file systems.
    Storage,
    /// Everything else of the host.
    Host,
}

/// Where a value is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// A sysctl; with a number, that field of it.
    Sysctl {
        /// Its dotted name.
        name: String,
        /// Which of several numbers.
        field: Option<usize>,
    },
    /// A file; `{nic}`, `{disk}`, `{cpu}` stand for each of them.
    File(String),
    /// What ethtool knows of a NIC.
    Ethtool(String),
    /// What rtnetlink knows of a NIC.
    Netlink(String),
    /// Something that code finds out.
    Fact(String),
}

impl Read {
    /// Whether there is one value for each NIC.
    pub fn is_of_nic(&self) -> bool {
        match self {
            Read::Ethtool(_) | Read::Netlink(_) => true,
            Read::File(path) => path.contains("{nic}"),
            Read::Sysctl { name, .. } => name.contains("{nic}"),
            Read::Fact(name) => name.starts_with("nic_") || NIC_FACTS.contains(&name.as_str()),
        }
    }

    /// Whether there is one value for each disk.
    pub fn is_of_disk(&self) -> bool {
        match self {
            Read::File(path) => path.contains("{disk}"),
            Read::Fact(name) => name.starts_with("disk_") || DISK_FACTS.contains(&name.as_str()),
            _ => false,
        }
    }
}

/// Facts of a NIC, or of a file system, whose names do not begin so.
const NIC_FACTS: [&str; 2] = ["link_speed_bit_s", "pcie_bandwidth_bit_s"];
const DISK_FACTS: [&str; 2] = ["filesystem_type", "mount_options"];

/// What a value should be.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Want {
    /// This.
    Is(Value),
    /// No less.
    AtLeast(Value),
    /// No more.
    AtMost(Value),
    /// Any of these; the first is what it is set to.
    OneOf(Vec<Value>),
    /// This word among others.
    Contains(Value),
    /// Nothing: it is shown.
    Report(bool),
}

/// What kind of value something is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Nature {
    /// It is what somebody has made it.
    #[default]
    Setting,
    /// It only grows, since boot or since a driver was loaded.
    Counter,
    /// It is never twice the same: a share, an error, the power of light.
    Passing,
}

/// A number, a word or the name of a number, or a number for each class of NIC.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A number.
    Number(f64),
    /// A word, or a name of [`crate::target::Target`]'s: `bdp`, `window`.
    Word(String),
    /// By the rate of the NIC: that of the largest class not above it.
    ByRate(BTreeMap<String, f64>),
}

/// A condition.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// The NIC is at least as fast, bit/s.
    RateAtLeast(u64),
    /// Somebody said the rate, so it is not the NIC's own.
    RateSaid,
    /// The NIC is for the data: the fastest, or named.
    Data,
    /// The round trip is at least as long, s.
    RttAtLeast(f64),
    /// The host's role: data transfer, or measurement.
    Role(String),
    /// Large packets are used.
    Jumbo,
    /// The kernel's release is below.
    KernelBelow(u32, u32),
    /// Or not below.
    KernelFrom(u32, u32),
    /// Something is there.
    Has(String),
    /// It is no virtual machine.
    Physical,
}

/// What a wrong value costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Nothing: good to know.
    Info,
    /// Per cents.
    Low,
    /// A part of the rate.
    Medium,
    /// Transfers fail or crawl.
    High,
}

/// How a recommendation is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// Somebody measured it.
    Measured,
    /// The maker says so.
    Vendor,
    /// Operators do it.
    Field,
    /// It follows from how things work.
    Derived,
}

/// Where the field disagrees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conflict {
    /// What others say.
    pub other: String,
    /// Why this is the default.
    pub ours: String,
}

/// How a value is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Means {
    /// By sysctl.
    Sysctl,
    /// By writing to its file.
    File,
    /// By ethtool.
    Ethtool,
    /// By rtnetlink.
    Netlink,
    /// By a person.
    Manual,
}

/// How a change survives a reboot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Persist {
    /// A file of ours in `/etc/sysctl.d`.
    #[serde(rename = "sysctl.d")]
    SysctlD,
    /// A systemd unit of ours.
    #[serde(rename = "unit")]
    Unit,
    /// A udev rule of ours.
    #[serde(rename = "udev")]
    Udev,
    /// By a person.
    #[serde(rename = "manual")]
    Manual,
}

/// Why the table cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// Not TOML, or not rows.
    #[error("the table of rules cannot be read")]
    Toml(#[from] toml::de::Error),
    /// Two rows have one id.
    #[error("two rules are called {0}")]
    Twice(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    rule: Vec<Rule>,
}

/// The rules that come with the program.
///
/// # Errors
/// The table makes no sense, which a test rules out.
pub fn rules() -> Result<Vec<Rule>, TableError> {
    read(TABLE)
}

/// Reads a table.
///
/// # Errors
/// What of it makes no sense, and where.
pub fn read(table: &str) -> Result<Vec<Rule>, TableError> {
    let Table { rule: rules } = toml::from_str(table)?;
    let mut ids = std::collections::BTreeSet::new();
    match rules.iter().find(|rule| !ids.insert(rule.id.clone())) {
        Some(twice) => Err(TableError::Twice(twice.id.clone())),
        None => Ok(rules),
    }
}

fn parsed<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Read, D::Error> {
    let text = String::deserialize(from)?;
    Read::parse(&text)
        .ok_or_else(|| serde::de::Error::custom(format!("{text:?} says no place that a value is read from")))
}

fn all_parsed<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<Condition>, D::Error> {
    let texts = Vec::<String>::deserialize(from)?;
    let parse = |text: &String| {
        Condition::parse(text).ok_or_else(|| serde::de::Error::custom(format!("{text:?} is no condition")))
    };
    texts.iter().map(parse).collect()
}

impl Read {
    fn parse(text: &str) -> Option<Read> {
        let (kind, rest) = text.split_once(' ')?;
        let rest = rest.trim();
        let whole = || (!rest.is_empty() && !rest.contains(' ')).then(|| rest.to_owned());
        match kind {
            "sysctl" => {
                let (name, field) = rest.split_once(' ').map_or((rest, None), |(name, field)| (name, Some(field)));
                let field = field.map(|field| field.trim().parse()).transpose().ok()?;
                (!name.is_empty()).then(|| Read::Sysctl { name: name.to_owned(), field })
            }
            "file" => whole().filter(|path| path.starts_with('/')).map(Read::File),
            "ethtool" => whole().map(Read::Ethtool),
            "netlink" => whole().map(Read::Netlink),
            "fact" => whole().map(Read::Fact),
            _ => None,
        }
    }
}

impl Condition {
    fn parse(text: &str) -> Option<Condition> {
        let words: Vec<&str> = text.split_whitespace().collect();
        match words[..] {
            ["rate", ">=", rate] => rate.parse::<BitRate>().ok().map(|rate| Condition::RateAtLeast(rate.0)),
            ["rate", "said"] => Some(Condition::RateSaid),
            ["data"] => Some(Condition::Data),
            ["rtt", ">=", rtt] => duration::parse(rtt).ok().map(|rtt| Condition::RttAtLeast(rtt.as_secs_f64())),
            ["role", "=", role @ ("dtn" | "measurement")] => Some(Condition::Role(role.to_owned())),
            ["jumbo"] => Some(Condition::Jumbo),
            ["kernel", "<", release] => release_of(release).map(|(major, minor)| Condition::KernelBelow(major, minor)),
            ["kernel", ">=", release] => release_of(release).map(|(major, minor)| Condition::KernelFrom(major, minor)),
            ["has", "=", what] => Some(Condition::Has(what.to_owned())),
            ["physical"] => Some(Condition::Physical),
            _ => None,
        }
    }
}

/// Major and minor number of a kernel's release: `6.18.44-fc` is (6, 18).
pub fn release_of(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Condition::RateAtLeast(rate) => write!(f, "NICs of {} and more", BitRate(*rate)),
            Condition::RateSaid => f.write_str("a rate that somebody says (--rate)"),
            Condition::Data => f.write_str("the fastest NIC, or those that are named"),
            Condition::RttAtLeast(rtt) => write!(f, "round trips of {:.0} ms and more", rtt * 1e3),
            Condition::Role(role) => write!(f, "hosts for {role}"),
            Condition::Jumbo => f.write_str("MTUs above 1500"),
            Condition::KernelBelow(major, minor) => write!(f, "kernels below {major}.{minor}"),
            Condition::KernelFrom(major, minor) => write!(f, "kernels from {major}.{minor} on"),
            Condition::Has(what) => write!(f, "hosts with {what}"),
            Condition::Physical => f.write_str("machines that are not virtual"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_whole() {
        let rules = rules().unwrap();
        let plain = |rule: &&Rule| rule.id.len() == 3;
        assert_eq!(rules.iter().filter(plain).count(), 84, "as many as the field has");
        for rule in &rules {
            let Rule { id, why, source, command, title, .. } = rule;
            assert!(why.len() > 20 && !source.is_empty() && !command.is_empty() && !title.is_empty(), "{id}");
            assert!(rule.persist != Persist::SysctlD || matches!(rule.read, Read::Sysctl { .. }), "{id}");
        }
        assert!(
            rules.iter().filter(|rule| rule.conflict.is_some()).count() >= 6,
            "where the field disagrees, both sides"
        );
    }

    #[test]
    fn rows_that_make_no_sense_are_refused() {
        let row = |read: &str, when: &str, want: &str| {
            format!(
                "[[rule]]\nid = \"X01\"\ntitle = \"t\"\narea = \"tcp\"\nread = \"{read}\"\nwant = {want}\nwhen = [\"{when}\"]\n\
                 severity = \"low\"\nwhy = \"w\"\nsource = \"s\"\nconfidence = \"field\"\nset = \"sysctl\"\ncommand = \"c\"\npersist = \"sysctl.d\"\n"
            )
        };
        let good = row("sysctl net.ipv4.tcp_rmem 2", "kernel < 6.6", "{ at_least = \"window\" }");
        let rule = &read(&good).unwrap()[0];
        assert_eq!(rule.read, Read::Sysctl { name: "net.ipv4.tcp_rmem".into(), field: Some(2) });
        assert_eq!(
            (&rule.when[0], &rule.want),
            (&Condition::KernelBelow(6, 6), &Want::AtLeast(Value::Word("window".into())))
        );
        assert!(read(&format!("{good}{good}")).is_err(), "one id twice");
        assert!(read(&row("ask somebody", "jumbo", "{ is = 1 }")).is_err());
        assert!(read(&row("sysctl a.b", "on Sundays", "{ is = 1 }")).is_err());
        assert!(read(&row("sysctl a.b", "jumbo", "{ exceeds = 1 }")).is_err());
        assert!(read(&row("file etc/x", "jumbo", "{ is = 1 }")).is_err());
    }

    #[test]
    fn releases() {
        assert_eq!(
            (release_of("6.18.44-fc"), release_of("5.4"), release_of("six")),
            (Some((6, 18)), Some((5, 4)), None)
        );
    }
}
