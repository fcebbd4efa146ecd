//! SciTags: which experiment and activity a flow belongs to, as a number in a header, as an IPv6 flow label, and as the
//! datagrams ("fireflies") that tell a collector.
//!
//! The number in the header and the label on the wire are different things that are easily taken for each other; both
//! formulas are here and nowhere else. Random bits are an argument.

mod firefly;

use std::fmt;

pub use firefly::{COLLECTOR_PORT, Firefly, Moment};

/// An experiment and an activity of the registry at scitags.org, as the one number of the header `SciTag`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SciTag(u16);

impl SciTag {
    /// No mark: what values outside the range count as.
    pub const UNMARKED: SciTag = SciTag(0);
    /// The smallest value of a mark.
    pub const MIN: u16 = 65;

    /// The mark of an experiment (1 to 1023) and an activity (below 64); none where a number is out of range, or the
    /// two make 64, which the rules leave out.
    pub fn new(experiment: u16, activity: u16) -> Option<SciTag> {
        let value = experiment.checked_mul(64)?.checked_add(activity)?;
        (activity < 64 && value >= SciTag::MIN).then_some(SciTag(value))
    }

    /// Reads a value; what is no number from 65 to 65535 is no mark, and no error.
    pub fn parse(value: &str) -> SciTag {
        let value = value.trim();
        let plain = value.bytes().all(|b| b.is_ascii_digit());
        SciTag(value.parse().ok().filter(|v| plain && *v >= SciTag::MIN).unwrap_or(0))
    }

    /// The number of the header.
    pub fn value(self) -> u16 {
        self.0
    }

    /// Whether it marks anything.
    pub fn is_marked(self) -> bool {
        self != SciTag::UNMARKED
    }

    /// The experiment's number; 0 for no mark.
    pub fn experiment(self) -> u16 {
        self.0 >> 6
    }

    /// The activity's number; 0 for no mark.
    pub fn activity(self) -> u16 {
        self.0 & 0x3f
    }

    /// The IPv6 flow label, 20 bits (draft-cc-v6ops-wlcg-flow-label-marking): `EE CCCCCCCCC E AAAAAA EE`, where C is the
    /// experiment with its bits reversed, A the activity, and E are five bits of `entropy`, the same for all packets of
    /// a flow. None for no mark, and for experiments above 511, which have no room.
    pub fn flow_label(self, entropy: u32) -> Option<u32> {
        let experiment = u32::from(self.experiment());
        if !self.is_marked() || experiment > 511 {
            return None;
        }
        let reversed = experiment.reverse_bits() >> (32 - 9);
        let chance = entropy & (0b11 << 18 | 1 << 8 | 0b11);
        Some(chance | reversed << 9 | u32::from(self.activity()) << 2)
    }
}

impl fmt::Display for SciTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ska() {
        let tag = SciTag::new(7, 1).unwrap();
        assert_eq!((tag.value(), tag.to_string().as_str()), (449, "449"));
        assert_eq!(SciTag::parse(" 452"), SciTag::new(7, 4).unwrap());
        assert_eq!((SciTag::parse("452").experiment(), SciTag::parse("452").activity()), (7, 4));
    }

    #[test]
    fn no_mark() {
        for value in ["", "0", "64", "65536", "-1", "+65", "x", "99999999999"] {
            assert_eq!(SciTag::parse(value), SciTag::UNMARKED, "{value}");
        }
        assert_eq!(SciTag::parse("65").value(), 65);
        assert_eq!(SciTag::parse("65535").value(), 65535);
        for (experiment, activity) in [(0, 1), (1, 0), (1, 64), (1024, 1)] {
            assert_eq!(SciTag::new(experiment, activity), None);
        }
    }

    #[test]
    fn labels_by_hand() {
        // 7 is 000000111, reversed 111000000: 448 * 512 = 229376; the activity 1 adds 4, the activity 4 adds 16.
        assert_eq!(SciTag::parse("449").flow_label(0), Some(229_380));
        assert_eq!(SciTag::parse("452").flow_label(0), Some(229_392));
        // CMS is 3, reversed 110000000: 384 * 512 = 196608.
        assert_eq!(SciTag::new(3, 1).unwrap().flow_label(0), Some(196_612));
        // All entropy: 2^19 + 2^18 + 2^8 + 3 = 786691 on top.
        assert_eq!(SciTag::parse("449").flow_label(u32::MAX), Some(229_380 + 786_691));
        assert_eq!(SciTag::UNMARKED.flow_label(0), None);
        assert_eq!(SciTag::parse("65535").flow_label(0), None);
    }

    proptest! {
        #[test]
        fn a_label_says_which(experiment in 1u16..512, activity in 1u16..64, entropy in any::<u32>()) {
            let tag = SciTag::new(experiment, activity).unwrap();
            let label = tag.flow_label(entropy).unwrap();
            prop_assert!(label < 1 << 20);
            prop_assert_eq!((label >> 2 & 0x3f) as u16, activity);
            prop_assert_eq!(((label >> 9 & 0x1ff).reverse_bits() >> 23) as u16, experiment);
            prop_assert_eq!(SciTag::parse(&tag.to_string()), tag);
        }
    }
}
