//! What a host is meant for: how fast its NIC, how far its peers, which role; and the numbers that follow.

use model::laws;

use crate::rule::Value;

/// The largest buffer that a signed 32-bit number can say.
const BUFFER_MAX: f64 = 2_147_483_647.0;
/// Bytes of a page on nearly all hosts.
const PAGE_BYTES: f64 = 4_096.0;

/// What a host does.
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
    /// Whether a rule for that role is for this host.
    pub fn covers(self, role: &str) -> bool {
        match self {
            Role::Both => true,
            Role::Dtn => role == "dtn",
            Role::Measurement => role == "measurement",
        }
    }

    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Role::Dtn => "dtn",
            Role::Measurement => "measurement",
            Role::Both => "both",
        }
    }
}

/// What a host is meant for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Target {
    /// As somebody said; else each NIC's own speed counts. Bit/s.
    pub rate_bit_s: Option<u64>,
    /// The longest round trip, s.
    pub rtt_s: f64,
    /// What it does.
    pub role: Role,
    /// Memory of the host, bytes; 0 where nobody knows.
    pub memory_bytes: u64,
}

/// What a value comes to.
#[derive(Clone, Debug, PartialEq)]
pub enum Resolved {
    /// A number.
    Number(f64),
    /// A word.
    Word(String),
    /// It depends on something that is not known.
    Unknown(&'static str),
}

impl Target {
    /// Bytes on the way when the path is full.
    pub fn bdp_bytes(&self, rate_bit_s: u64) -> f64 {
        laws::bdp_bytes(rate_bit_s as f64, self.rtt_s)
    }

    /// A buffer for that: twice as much, as half of a buffer may be the kernel's own.
    pub fn window_bytes(&self, rate_bit_s: u64) -> f64 {
        (2.0 * self.bdp_bytes(rate_bit_s)).min(BUFFER_MAX)
    }

    /// What a value of a rule comes to, for a NIC of this speed.
    pub fn resolve(&self, value: &Value, nic_bit_s: Option<u64>) -> Resolved {
        let rate = self.rate_bit_s.or(nic_bit_s);
        let by_rate = |number: &dyn Fn(u64) -> f64| match rate {
            Some(rate) => Resolved::Number(number(rate).round()),
            None => Resolved::Unknown("the speed of the NIC is not known: say --rate"),
        };
        match value {
            Value::Number(number) => Resolved::Number(*number),
            Value::Word(word) => match word.as_str() {
                "bdp" => by_rate(&|rate| self.bdp_bytes(rate)),
                "window" => by_rate(&|rate| self.window_bytes(rate)),
                "half_memory_pages" if self.memory_bytes > 0 => {
                    Resolved::Number((self.memory_bytes as f64 / 2.0 / PAGE_BYTES).floor())
                }
                "half_memory_pages" => Resolved::Unknown("the size of the memory is not known"),
                _ => Resolved::Word(word.clone()),
            },
            Value::ByRate(classes) => by_rate(&|rate| class(classes, rate)),
        }
    }
}

/// The number of the largest class that is not above the rate; below the first one, the first one's.
fn class(classes: &std::collections::BTreeMap<String, f64>, rate_bit_s: u64) -> f64 {
    let read = |(name, number): (&String, &f64)| Some((name.parse::<model::units::BitRate>().ok()?.0, *number));
    let mut classes: Vec<(u64, f64)> = classes.iter().filter_map(read).collect();
    classes.sort_by_key(|(rate, _)| *rate);
    let fits = classes.iter().rev().find(|(rate, _)| *rate <= rate_bit_s).or(classes.first());
    fits.map_or(0.0, |(_, number)| *number)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GBIT: u64 = 1_000_000_000;

    #[test]
    fn numbers_follow_from_rate_and_round_trip() {
        let target = Target { rtt_s: 0.303, ..Target::default() };
        let number = |word: &str, rate| target.resolve(&Value::Word(word.into()), rate);
        assert_eq!(number("bdp", Some(10 * GBIT)), Resolved::Number(378_750_000.0));
        assert_eq!(number("window", Some(10 * GBIT)), Resolved::Number(757_500_000.0));
        assert_eq!(number("window", Some(100 * GBIT)), Resolved::Number(2_147_483_647.0), "no buffer is larger");
        assert!(matches!(number("window", None), Resolved::Unknown(_)));
        assert_eq!(number("cubic", None), Resolved::Word("cubic".into()));
        let said = Target { rate_bit_s: Some(GBIT), ..target };
        assert_eq!(said.resolve(&Value::Word("bdp".into()), Some(100 * GBIT)), Resolved::Number(37_875_000.0));
    }

    #[test]
    fn classes_of_nics() {
        let classes = [("10Gbit/s", 250.0), ("40Gbit/s", 400.0), ("100Gbit/s", 500.0)];
        let value = Value::ByRate(classes.map(|(name, number)| (name.to_owned(), number)).into());
        let number = |rate| Target::default().resolve(&value, Some(rate));
        for (rate, wanted) in [(GBIT, 250.0), (10 * GBIT, 250.0), (25 * GBIT, 250.0), (40 * GBIT, 400.0), (400 * GBIT, 500.0)] {
            assert_eq!(number(rate), Resolved::Number(wanted), "{rate}");
        }
    }

    #[test]
    fn roles() {
        assert!(Role::Both.covers("dtn") && Role::Both.covers("measurement"));
        assert!(Role::Dtn.covers("dtn") && !Role::Dtn.covers("measurement"));
    }
}
