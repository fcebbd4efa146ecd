//! The purpose of a host (the rate of its NIC, the round trip to its peers, its role), and the numbers that follow from it.

use model::laws;

use crate::host::{HostError, HostResult};
use crate::rule::Value;

/// The largest buffer that fits a signed 32-bit number, bytes.
const BUFFER_MAX: f64 = 2_147_483_647.0;
/// The memory for TCP should hold this many flows, each with a full window.
const FLOWS: f64 = 4.0;
/// How long a program may be kept from running while packets arrive for it, s.
const BURST_S: f64 = 0.05;
/// Unwritten data at which programs must wait, if the memory is large enough: twice the amount at which writing starts (D06a).
const DIRTY_BYTES: f64 = 8_589_934_592.0;

/// The role of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// It transfers data.
    Dtn,
    /// It measures.
    Measurement,
    /// Both.
    #[default]
    Both,
}

impl Role {
    /// Whether a rule for this role applies to the host.
    pub fn covers(self, role: &str) -> bool {
        match self {
            Role::Both => true,
            Role::Dtn => role == "dtn",
            Role::Measurement => role == "measurement",
        }
    }

    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Role::Dtn => "dtn",
            Role::Measurement => "measurement",
            Role::Both => "both",
        }
    }
}

/// The purpose of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Target {
    /// The rate that the user named, bit/s; if none, each NIC's own speed counts.
    pub rate_bit_s: Option<u64>,
    /// The longest round trip, s.
    pub rtt_s: f64,
    /// Its role.
    pub role: Role,
    /// Memory of the host, bytes; 0 where it is not known.
    pub memory_bytes: u64,
}

/// The result of resolving a rule's value.
#[derive(Clone, Debug, PartialEq)]
pub enum Resolved {
    /// A number.
    Number(f64),
    /// A word.
    Word(String),
    /// It depends on a number that is not known; why.
    Unknown(String),
}

/// Names that stand for numbers of the host. [`Target`] resolves further names, whose numbers follow from rate and round trip.
pub const NAMED: [&str; 7] =
    ["ring_rx_max", "ring_tx_max", "big_tcp", "queues_min", "queues_max", "conntrack_twice", "page_bytes"];

/// What a rule's value is resolved with: the speed of the NIC, and numbers of the host.
#[derive(Clone, Copy)]
pub struct ResolveContext<'a> {
    /// Speed of the NIC, bit/s.
    pub nic_bit_s: Option<u64>,
    /// The number behind one of [`NAMED`], or of a disk's `request_kb`.
    pub named: &'a dyn Fn(&str) -> HostResult<f64>,
}

impl std::fmt::Debug for ResolveContext<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResolveContext").field("nic_bit_s", &self.nic_bit_s).finish_non_exhaustive()
    }
}

impl Target {
    /// Bytes in flight when the path is full.
    pub fn bdp_bytes(&self, rate_bit_s: u64) -> f64 {
        laws::bdp_bytes(rate_bit_s as f64, self.rtt_s)
    }

    /// The buffer for that: twice as much, since half of a buffer may be the kernel's own.
    pub fn window_bytes(&self, rate_bit_s: u64) -> f64 {
        (2.0 * self.bdp_bytes(rate_bit_s)).min(BUFFER_MAX)
    }

    /// The rate that a rule uses.
    fn rate(&self, context: ResolveContext<'_>) -> Option<u64> {
        self.rate_bit_s.or(context.nic_bit_s)
    }

    /// Resolves a value of a rule.
    pub fn resolve(&self, value: &Value, context: ResolveContext<'_>) -> Resolved {
        let resolved = match value {
            Value::Number(number) => Ok(Resolved::Number(*number)),
            Value::ByRate(classes) => {
                self.known_rate(context).map(|rate| Resolved::Number(number_for_rate(classes, rate)))
            }
            Value::Word(word) => match self.number(word, context) {
                Some(number) => number.map(Resolved::Number),
                None => Ok(Resolved::Word(word.clone())),
            },
        };
        resolved.unwrap_or_else(Resolved::Unknown)
    }

    /// The number behind a name, or why it is not known; none if the name stands for no number.
    fn number(&self, name: &str, context: ResolveContext<'_>) -> Option<Result<f64, String>> {
        let rate = || self.known_rate(context);
        Some(match name {
            "bdp" => rate().map(|rate| self.bdp_bytes(rate).round()),
            "window" => rate().map(|rate| self.window_bytes(rate).round()),
            "rate" => rate().map(|rate| rate as f64),
            "flows_pages" => self.flows_pages(context),
            "burst_pages" => rate().and_then(|rate| Ok((BURST_S * rate as f64 / 8.0 / page_bytes(context)?).ceil())),
            "half_memory_pages" => self.half_memory_pages(context),
            "tenth_memory" => self.memory().map(|memory| (memory / 10.0).floor()),
            "dirty_least" => self.memory().map(|memory| (memory / 20.0).floor().min(DIRTY_BYTES)),
            name if NAMED.contains(&name) || name == "request_kb" => host_number(name, context),
            _ => return None,
        })
    }

    fn known_rate(&self, context: ResolveContext<'_>) -> Result<u64, String> {
        self.rate(context).ok_or_else(|| "the speed of the NIC is not known: give --rate".into())
    }

    fn memory(&self) -> Result<f64, String> {
        if self.memory_bytes > 0 {
            Ok(self.memory_bytes as f64)
        } else {
            Err("the size of the memory is not known".into())
        }
    }

    fn half_memory_pages(&self, context: ResolveContext<'_>) -> Result<f64, String> {
        Ok((self.memory()? / 2.0 / page_bytes(context)?).floor())
    }

    fn flows_pages(&self, context: ResolveContext<'_>) -> Result<f64, String> {
        let most = self.half_memory_pages(context)?;
        let wish = FLOWS * self.window_bytes(self.known_rate(context)?) / page_bytes(context)?;
        Ok(wish.min(most).round())
    }
}

/// A number of the host, by its name.
fn host_number(name: &str, context: ResolveContext<'_>) -> Result<f64, String> {
    (context.named)(name).map_err(|why| format!("{}: {why}", name.replace('_', " ")))
}

/// The page size: many hosts have pages of 4 KiB, some of 16 or 64.
fn page_bytes(context: ResolveContext<'_>) -> Result<f64, String> {
    let bytes = host_number("page_bytes", context)?;
    if bytes >= 1.0 { Ok(bytes) } else { Err(format!("pages of {bytes} bytes")) }
}

/// The number of the largest class that is not above the rate; below the first class, that of the first.
fn number_for_rate(classes: &std::collections::BTreeMap<String, f64>, rate_bit_s: u64) -> f64 {
    let read = |(name, number): (&String, &f64)| Some((name.parse::<model::units::BitRate>().ok()?.0, *number));
    let mut classes: Vec<(u64, f64)> = classes.iter().filter_map(read).collect();
    classes.sort_by_key(|(rate, _)| *rate);
    let fits = classes.iter().rev().find(|(rate, _)| *rate <= rate_bit_s).or(classes.first());
    fits.map_or(0.0, |(_, number)| *number)
}

/// For hosts of which no number is known.
///
/// # Errors
/// Always.
pub fn no_numbers(_: &str) -> HostResult<f64> {
    Err(HostError::Absent)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GBIT: u64 = 1_000_000_000;

    fn nic(nic_bit_s: Option<u64>) -> ResolveContext<'static> {
        ResolveContext { nic_bit_s, named: &no_numbers }
    }

    #[test]
    fn numbers_follow_from_rate_and_round_trip() {
        let target = Target { rtt_s: 0.303, ..Target::default() };
        let number = |word: &str, rate| target.resolve(&Value::Word(word.into()), nic(rate));
        assert_eq!(number("bdp", Some(10 * GBIT)), Resolved::Number(378_750_000.0));
        assert_eq!(number("window", Some(10 * GBIT)), Resolved::Number(757_500_000.0));
        assert_eq!(number("window", Some(100 * GBIT)), Resolved::Number(2_147_483_647.0), "no buffer is larger");
        assert!(matches!(number("window", None), Resolved::Unknown(_)));
        assert_eq!(number("cubic", None), Resolved::Word("cubic".into()));
        assert!(matches!(number("tenth_memory", None), Resolved::Unknown(_)));
        assert!(matches!(number("ring_rx_max", None), Resolved::Unknown(why) if why.starts_with("ring rx max")));
        let with_rate = Target { rate_bit_s: Some(GBIT), memory_bytes: 1 << 34, ..target };
        let on = |page_bytes: f64, word: &str| {
            let named = |name: &str| if name == "page_bytes" { Ok(page_bytes) } else { no_numbers(name) };
            let context = ResolveContext { nic_bit_s: Some(100 * GBIT), named: &named };
            with_rate.resolve(&Value::Word(word.into()), context)
        };
        let number = |word: &str| on(4_096.0, word);
        assert_eq!(number("bdp"), Resolved::Number(37_875_000.0));
        assert_eq!(number("half_memory_pages"), Resolved::Number(2_097_152.0));
        assert_eq!(number("flows_pages"), Resolved::Number((4.0 * 75_750_000.0 / 4_096.0_f64).round()));
        assert_eq!(number("burst_pages"), Resolved::Number(1_526.0));
        // Pages sixteen times larger, sixteen times fewer.
        let large = |word: &str| on(65_536.0, word);
        assert_eq!(large("half_memory_pages"), Resolved::Number(131_072.0));
        assert_eq!(large("flows_pages"), Resolved::Number((4.0 * 75_750_000.0 / 65_536.0_f64).round()));
        assert_eq!(large("burst_pages"), Resolved::Number(96.0));
        assert!(matches!(on(0.0, "flows_pages"), Resolved::Unknown(_)));
        assert!(matches!(with_rate.resolve(&Value::Word("half_memory_pages".into()), nic(None)), Resolved::Unknown(_)));
        assert_eq!(number("dirty_least"), Resolved::Number(858_993_459.0));
        let large = Target { memory_bytes: 256 << 30, ..with_rate };
        assert_eq!(large.resolve(&Value::Word("dirty_least".into()), nic(None)), Resolved::Number(8_589_934_592.0));
    }

    #[test]
    fn the_largest_class_up_to_the_rate_is_used() {
        let classes = [("10Gbit/s", 250.0), ("40Gbit/s", 400.0), ("100Gbit/s", 500.0)];
        let value = Value::ByRate(classes.map(|(name, number)| (name.to_owned(), number)).into());
        let number = |rate| Target::default().resolve(&value, nic(Some(rate)));
        for (rate, wanted) in
            [(GBIT, 250.0), (10 * GBIT, 250.0), (25 * GBIT, 250.0), (40 * GBIT, 400.0), (400 * GBIT, 500.0)]
        {
            assert_eq!(number(rate), Resolved::Number(wanted), "{rate}");
        }
    }

    #[test]
    fn the_role_both_covers_all_rules() {
        assert!(Role::Both.covers("dtn") && Role::Both.covers("measurement"));
        assert!(Role::Dtn.covers("dtn") && !Role::Dtn.covers("measurement"));
    }
}
