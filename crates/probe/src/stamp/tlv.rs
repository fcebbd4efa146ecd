//! The octets of a packet after the first 44: TLVs (RFC 8972, section 4), or TWAMP-Light's padding, which has no meaning.
//!
//! ```text
//! 0 flags (U M I) · 1 type · 2 length of the value · 4 value
//! ```

use super::packet::Timestamp;

/// The reflector does not know the type. The sender sets the flag, so that a reflector that ignores TLVs leaves it set.
pub const UNRECOGNISED: u8 = 0x80;
/// The length is invalid.
pub const MALFORMED: u8 = 0x40;
/// The HMAC over the TLVs did not match.
pub const INTEGRITY: u8 = 0x20;

/// Octets of flags, type and length.
pub const HEAD: usize = 4;

/// Octets that only make the packet longer.
pub const EXTRA_PADDING: u8 = 1;
/// How each end took its times: four octets.
pub const TIMESTAMP_INFORMATION: u8 = 3;
/// Counts of packets sent, received, and sent back: three words.
pub const DIRECT_MEASUREMENT: u8 = 5;
/// When an earlier answer left: number, time, method of the time stamp, three zeros.
pub const FOLLOW_UP_TELEMETRY: u8 = 7;

/// One TLV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tlv<'a> {
    /// Where it begins.
    pub at: usize,
    /// `U`, `M`, `I`.
    pub flags: u8,
    /// Its type.
    pub kind: u8,
    /// Its value; the beginning of it where the packet ends too early.
    pub value: &'a [u8],
    /// The packet holds all of it.
    pub is_whole: bool,
}

/// The TLVs in the octets after the first 44, up to the first TLV that does not fit.
pub fn walk(tail: &[u8]) -> impl Iterator<Item = Tlv<'_>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = tail.get(at..).filter(|rest| !rest.is_empty())?;
        let begin = at;
        let tlv = match *rest {
            [flags, kind, high, low, ref value @ ..] => {
                let length = usize::from(u16::from_be_bytes([high, low]));
                at += HEAD + length;
                let is_whole = length <= value.len();
                Tlv { at: begin, flags, kind, value: &value[..length.min(value.len())], is_whole }
            }
            // One to three octets: not even a head.
            _ => {
                at = tail.len();
                let kind = rest.get(1).copied().unwrap_or(0);
                Tlv { at: begin, flags: rest[0], kind, value: &[], is_whole: false }
            }
        };
        if !tlv.is_whole {
            at = tail.len();
        }
        Some(tlv)
    })
}

/// The values that a reflector writes into the TLVs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Its clock is synchronised to UTC.
    pub synchronised: bool,
    /// Questions of this session that arrived, this one included.
    pub received: u32,
    /// Answers of this session that left, this one included.
    pub sent: u32,
    /// Number and departure of an earlier answer.
    pub last: Option<(u32, Timestamp)>,
}

/// RFC 8972, section 4.3: a clock that NTP synchronises, or one that runs freely; time stamps taken by software.
const SOURCE_NTP: u8 = 1;
const SOURCE_FREE: u8 = 5;
const METHOD_SOFTWARE: u8 = 2;

/// Writes the reflector's part into the TLVs: fills values, clears `U` on known types and sets it on others, sets `M` on a
/// malformed TLV, after which no further one is read. Padding that is not TLVs begins with type 0 without `U`, and stays as it is.
pub fn reflect(tail: &mut [u8], facts: &Facts) {
    if tail.first_chunk::<2>() == Some(&[0, 0]) {
        return;
    }
    let found: Vec<(usize, usize, u8, bool)> =
        walk(tail).map(|tlv| (tlv.at, tlv.value.len(), tlv.kind, tlv.is_whole)).collect();
    for (at, length, kind, is_whole) in found {
        let wanted = match kind {
            EXTRA_PADDING => Some(length),
            TIMESTAMP_INFORMATION => Some(4),
            DIRECT_MEASUREMENT => Some(12),
            FOLLOW_UP_TELEMETRY => Some(16),
            _ => None,
        };
        let is_right = is_whole && wanted.is_none_or(|wanted| wanted == length);
        tail[at] = match (wanted, is_right) {
            (Some(_), true) => 0,
            (Some(_), false) => MALFORMED,
            (None, true) => UNRECOGNISED,
            (None, false) => UNRECOGNISED | MALFORMED,
        };
        if !is_right {
            return;
        }
        fill(kind, &mut tail[at + HEAD..at + HEAD + length], facts);
    }
}

/// Fills a value of a known type, whose length the caller has checked.
fn fill(kind: u8, value: &mut [u8], facts: &Facts) {
    match kind {
        TIMESTAMP_INFORMATION => {
            let source = if facts.synchronised { SOURCE_NTP } else { SOURCE_FREE };
            value.copy_from_slice(&[source, METHOD_SOFTWARE, source, METHOD_SOFTWARE]);
        }
        DIRECT_MEASUREMENT => {
            value[4..8].copy_from_slice(&facts.received.to_be_bytes());
            value[8..12].copy_from_slice(&facts.sent.to_be_bytes());
        }
        FOLLOW_UP_TELEMETRY => {
            value.fill(0);
            if let Some((sequence, at)) = facts.last {
                value[..4].copy_from_slice(&sequence.to_be_bytes());
                value[4..12].copy_from_slice(&at.0.to_be_bytes());
                value[12] = METHOD_SOFTWARE;
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FACTS: Facts = Facts {
        synchronised: true,
        received: 0x0102_0304,
        sent: 0x0506_0708,
        last: Some((0x1112_1314, Timestamp(0x2122_2324_2526_2728))),
    };

    fn reflected(tail: &[u8]) -> Vec<u8> {
        let mut tail = tail.to_vec();
        reflect(&mut tail, &FACTS);
        tail
    }

    #[test]
    fn known_types_are_filled() {
        let padding = [0x80, 1, 0, 3, 9, 9, 9];
        let times = [0x80, 3, 0, 4, 0, 0, 0, 0];
        let counts = [0x80, 5, 0, 12, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0];
        let mut follow = vec![0x80, 7, 0, 16];
        follow.extend([0; 16]);
        let asked = [&padding[..], &times, &counts, &follow].concat();
        let expected = [
            &[0, 1, 0, 3, 9, 9, 9][..],
            &[0, 3, 0, 4, 1, 2, 1, 2],
            &[0, 5, 0, 12, 0, 0, 0, 7, 1, 2, 3, 4, 5, 6, 7, 8],
            &[0, 7, 0, 16, 0x11, 0x12, 0x13, 0x14, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, 2, 0, 0, 0],
        ]
        .concat();
        assert_eq!(reflected(&asked), expected);
    }

    #[test]
    fn unknown_and_malformed_ones_are_marked_and_echoed() {
        assert_eq!(reflected(&[0, 99, 0, 2, 5, 6]), [0x80, 99, 0, 2, 5, 6], "marked even where the sender did not");
        // A known type of a wrong length ends the reading: the unknown one after it stays unchanged.
        let wrong = [0x80, 3, 0, 1, 7, 0x00, 99, 0, 0];
        assert_eq!(reflected(&wrong), [0x40, 3, 0, 1, 7, 0x00, 99, 0, 0]);
        assert_eq!(reflected(&[0x80, 1, 0, 9, 1]), [0x40, 1, 0, 9, 1], "longer than the packet");
        assert_eq!(reflected(&[0x80, 200, 0xff, 0xff]), [0xc0, 200, 0xff, 0xff]);
        assert_eq!(reflected(&[0x80, 1, 0]), [0x40, 1, 0], "not even a head");
        assert_eq!(reflected(&[0x80]), [0xc0]);
    }

    #[test]
    fn padding_of_zeros_is_not_tlvs() {
        assert_eq!(reflected(&[0; 27]), [0; 27]);
        assert_eq!(reflected(&[0, 0, 1, 2, 3]), [0, 0, 1, 2, 3]);
    }

    proptest! {
        #[test]
        fn any_octets_are_walked(tail in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut next = 0;
            for tlv in walk(&tail) {
                prop_assert_eq!(tlv.at, next);
                prop_assert_eq!(tlv.flags, tail[tlv.at]);
                next = if tlv.is_whole { tlv.at + HEAD + tlv.value.len() } else { tail.len() };
            }
            prop_assert_eq!(next, tail.len());
            let after = reflected(&tail);
            prop_assert_eq!(after.len(), tail.len());
            // Types and lengths stay at their places.
            let marks = |tail: &[u8]| walk(tail).map(|t| (t.at, t.kind, t.value.len())).collect::<Vec<_>>();
            prop_assert_eq!(marks(&after), marks(&tail));
        }
    }
}
