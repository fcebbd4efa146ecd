//! SciTags: the experiment and the activity of a flow, as a number in a header, as an IPv6 flow label, and in the datagrams ("fireflies")
//! for a collector.
//!
//! The number in the header and the label in packets are easily confused: they are computed by different formulas, both only in this
//! module. Random bits are an argument.

mod firefly;

use std::fmt;

pub use firefly::{COLLECTOR_PORT, Firefly, FlowState};

/// The number in the header `SciTag`, for an experiment and an activity of the registry at scitags.org.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SciTag(u16);

impl SciTag {
    /// No mark. Values outside the range count as this.
    pub const UNMARKED: SciTag = SciTag(0);
    /// The smallest value of a mark.
    pub const MIN: u16 = 65;

    /// The mark of an experiment (1 to 1023) and an activity (below 64); `None` where a number is out of range, or the value would be 64,
    /// which the specification excludes.
    pub fn new(experiment: u16, activity: u16) -> Option<SciTag> {
        let value = experiment.checked_mul(64)?.checked_add(activity)?;
        (activity < 64 && value >= SciTag::MIN).then_some(SciTag(value))
    }

    /// Parses a value. Anything but a number from 65 to 65535 is [`SciTag::UNMARKED`], not an error.
    pub fn parse(value: &str) -> SciTag {
        let value = value.trim();
        let plain = value.bytes().all(|b| b.is_ascii_digit());
        SciTag(value.parse().ok().filter(|v| plain && *v >= SciTag::MIN).unwrap_or(0))
    }

    /// The number in the header.
    pub fn value(self) -> u16 {
        self.0
    }

    /// Whether it is a mark.
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
    /// a flow. `None` without a mark, and for experiments above 511, for which the label has too few bits.
    pub fn flow_label(self, entropy: u32) -> Option<u32> {
        let experiment = u32::from(self.experiment());
        if !self.is_marked() || experiment > 511 {
            return None;
        }
        let reversed = experiment.reverse_bits() >> (32 - 9);
        let random = entropy & (0b11 << 18 | 1 << 8 | 0b11);
        Some(random | reversed << 9 | u32::from(self.activity()) << 2)
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
    fn the_marks_of_ska_are_computed() {
        let tag = SciTag::new(7, 1).unwrap();
        assert_eq!((tag.value(), tag.to_string().as_str()), (449, "449"));
        assert_eq!(SciTag::parse(" 452"), SciTag::new(7, 4).unwrap());
        assert_eq!((SciTag::parse("452").experiment(), SciTag::parse("452").activity()), (7, 4));
    }

    #[test]
    fn values_out_of_range_are_no_mark() {
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
    fn flow_labels_equal_those_computed_by_hand() {
        // 7 is 000000111, reversed 111000000: 448 * 512 = 229376; the activity 1 adds 4, the activity 4 adds 16.
        assert_eq!(SciTag::parse("449").flow_label(0), Some(229_380));
        assert_eq!(SciTag::parse("452").flow_label(0), Some(229_392));
        // CMS is 3, reversed 110000000: 384 * 512 = 196608.
        assert_eq!(SciTag::new(3, 1).unwrap().flow_label(0), Some(196_612));
        // All bits of the entropy add 2^19 + 2^18 + 2^8 + 3 = 786691.
        assert_eq!(SciTag::parse("449").flow_label(u32::MAX), Some(229_380 + 786_691));
        assert_eq!(SciTag::UNMARKED.flow_label(0), None);
        assert_eq!(SciTag::parse("65535").flow_label(0), None);
    }

    proptest! {
        #[test]
        fn a_label_contains_experiment_and_activity(experiment in 1u16..512, activity in 1u16..64, entropy in any::<u32>()) {
            let tag = SciTag::new(experiment, activity).unwrap();
            let label = tag.flow_label(entropy).unwrap();
            prop_assert!(label < 1 << 20);
            prop_assert_eq!((label >> 2 & 0x3f) as u16, activity);
            prop_assert_eq!(((label >> 9 & 0x1ff).reverse_bits() >> 23) as u16, experiment);
            prop_assert_eq!(SciTag::parse(&tag.to_string()), tag);
        }
    }
}
