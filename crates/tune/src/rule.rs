//! The rules: rows of `rules.toml`, which are checked when they are read.
//!
//! A row says where a value is, what it should be, why, by which source, and how it is changed. Module `host` reads the value, and module
//! `judge` compares it.

use std::collections::BTreeMap;
use std::fmt;

use model::duration;
use model::units::BitRate;
use serde::{Deserialize, Serialize};

/// The table that is shipped with the program.
const TABLE: &str = include_str!("../rules.toml");

/// A row of the table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Its id, which never changes: `T01`, `N11`, `D06a`.
    pub id: String,
    /// A title, one line.
    pub title: String,
    /// The part of the host that it is about.
    pub area: Area,
    /// Where the value is read.
    #[serde(deserialize_with = "parsed")]
    pub read: Read,
    /// The wanted value.
    pub want: Want,
    /// The unit of the number; none for words and plain numbers.
    pub unit: Option<String>,
    /// The nature of the value.
    #[serde(default)]
    pub nature: Nature,
    /// The conditions under which the rule applies: all must hold.
    #[serde(default, deserialize_with = "all_parsed")]
    pub when: Vec<Condition>,
    /// The cost if the value is wrong.
    pub severity: Severity,
    /// The reason, for a reader who does not know the setting.
    pub why: String,
    /// The source of the recommendation.
    pub source: String,
    /// How well the source supports it.
    pub confidence: Confidence,
    /// A recommendation that differs, and why this is the default all the same.
    pub conflict: Option<Conflict>,
    /// How it is changed.
    pub set: ChangeMethod,
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

/// Where a value is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// A sysctl; with a number, that field of it.
    Sysctl {
        /// Its dotted name.
        name: String,
        /// The index of one of several numbers.
        field: Option<usize>,
    },
    /// A file; `{nic}`, `{disk}`, `{cpu}` stand for every NIC, disk and processor.
    File(String),
    /// A setting of a NIC by ethtool.
    Ethtool(String),
    /// A setting of a NIC by rtnetlink.
    Netlink(String),
    /// A fact that code computes.
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

/// Facts of a NIC, and of a file system, whose names lack the prefix of such facts.
const NIC_FACTS: [&str; 2] = ["link_speed_bit_s", "pcie_bandwidth_bit_s"];
const DISK_FACTS: [&str; 2] = ["filesystem_type", "mount_options"];

/// The wanted value.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Want {
    /// Equal to this.
    Is(Value),
    /// At least this.
    AtLeast(Value),
    /// At most this.
    AtMost(Value),
    /// Any of these; the first is the one that is set.
    OneOf(Vec<Value>),
    /// A list with this word.
    Contains(Value),
    /// No value: it is only shown.
    Report(bool),
}

/// The nature of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Nature {
    /// A setting.
    #[default]
    Setting,
    /// A counter that only grows, since boot or since a driver was loaded.
    Counter,
    /// A measurement that is seldom the same twice: a share of time, the error of a clock, the power of light.
    Passing,
}

/// A value of the table: a number, a word, the name of a number, or a number for each class of NIC.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A number.
    Number(f64),
    /// A word, or a name that [`crate::target::Target`] resolves: `bdp`, `window`.
    Word(String),
    /// By the rate of the NIC: the number of the largest class not above that rate.
    ByRate(BTreeMap<String, f64>),
}

/// A condition of a rule.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// The NIC is at least as fast, bit/s.
    RateAtLeast(u64),
    /// The user named the rate, so it is not the NIC's own.
    RateGiven,
    /// The NIC is for the data: the fastest, or one that the user named.
    Data,
    /// The round trip is at least as long, s.
    RttAtLeast(f64),
    /// The host has this role: data transfer, or measurement.
    Role(String),
    /// Large packets are used.
    Jumbo,
    /// The kernel's release is below this.
    KernelBelow(u32, u32),
    /// The kernel's release is not below this.
    KernelFrom(u32, u32),
    /// The host, NIC or disk has this feature.
    Has(String),
    /// The host is a physical machine.
    Physical,
}

/// The cost of a wrong value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// No cost: good to know.
    Info,
    /// A few per cent of the rate.
    Low,
    /// A part of the rate.
    Medium,
    /// Transfers fail or crawl.
    High,
}

/// How well a recommendation is supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// By a published measurement.
    Measured,
    /// By the vendor.
    Vendor,
    /// By the practice of operators.
    Field,
    /// By reasoning from how the parts work.
    Derived,
}

/// A recommendation that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conflict {
    /// The other recommendation.
    pub other: String,
    /// The reason for this default.
    pub ours: String,
}

/// How a value is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeMethod {
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
    /// By the program's file in `/etc/sysctl.d`.
    #[serde(rename = "sysctl.d")]
    SysctlD,
    /// By the program's systemd unit.
    #[serde(rename = "unit")]
    Unit,
    /// By the program's udev rule.
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
    /// The text is not TOML, or its rows have wrong fields.
    #[error("the table of rules cannot be read")]
    Toml(#[from] toml::de::Error),
    /// Two rows have the same id.
    #[error("two rules have the id {0}")]
    DuplicateId(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleTable {
    rule: Vec<Rule>,
}

/// The rules that are shipped with the program.
///
/// # Errors
/// The table is invalid, which a test rules out.
pub fn rules() -> Result<Vec<Rule>, TableError> {
    read(TABLE)
}

/// Reads a table.
///
/// # Errors
/// The first row that is invalid, and where it is.
pub fn read(table: &str) -> Result<Vec<Rule>, TableError> {
    let RuleTable { rule: rules } = toml::from_str(table)?;
    let mut ids = std::collections::BTreeSet::new();
    match rules.iter().find(|rule| !ids.insert(rule.id.clone())) {
        Some(second) => Err(TableError::DuplicateId(second.id.clone())),
        None => Ok(rules),
    }
}

fn parsed<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Read, D::Error> {
    let text = String::deserialize(from)?;
    Read::parse(&text).ok_or_else(|| serde::de::Error::custom(format!("{text:?} is not a place to read a value from")))
}

fn all_parsed<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<Condition>, D::Error> {
    let texts = Vec::<String>::deserialize(from)?;
    let parse = |text: &String| {
        Condition::parse(text).ok_or_else(|| serde::de::Error::custom(format!("{text:?} is not a condition")))
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
            ["rate", "said"] => Some(Condition::RateGiven),
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

/// The major and minor number of a kernel's release: `6.18.44-fc` is (6, 18).
pub fn release_of(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Condition::RateAtLeast(rate) => write!(f, "NICs of {} and more", BitRate(*rate)),
            Condition::RateGiven => f.write_str("a rate given by --rate"),
            Condition::Data => f.write_str("the fastest NIC, or those that the user named"),
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
    fn the_table_is_complete() {
        let rules = rules().unwrap();
        let plain = |rule: &&Rule| rule.id.len() == 3;
        assert_eq!(rules.iter().filter(plain).count(), 84, "the number of rules without a letter");
        for rule in &rules {
            let Rule { id, why, source, command, title, .. } = rule;
            assert!(why.len() > 20 && !source.is_empty() && !command.is_empty() && !title.is_empty(), "{id}");
            assert!(rule.persist != Persist::SysctlD || matches!(rule.read, Read::Sysctl { .. }), "{id}");
        }
        assert!(
            rules.iter().filter(|rule| rule.conflict.is_some()).count() >= 6,
            "rules name the recommendations that they contradict"
        );
    }

    #[test]
    fn invalid_rows_are_refused() {
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
        assert!(read(&format!("{good}{good}")).is_err(), "the same id twice");
        assert!(read(&row("ask somebody", "jumbo", "{ is = 1 }")).is_err());
        assert!(read(&row("sysctl a.b", "on Sundays", "{ is = 1 }")).is_err());
        assert!(read(&row("sysctl a.b", "jumbo", "{ exceeds = 1 }")).is_err());
        assert!(read(&row("file etc/x", "jumbo", "{ is = 1 }")).is_err());
    }

    #[test]
    fn releases_are_parsed() {
        assert_eq!(
            (release_of("6.18.44-fc"), release_of("5.4"), release_of("six")),
            (Some((6, 18)), Some((5, 4)), None)
        );
    }
}
