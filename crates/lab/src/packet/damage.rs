//! Damage to one segment: a wrong bit, and whether the receiving kernel can notice it.
//!
//! Does not know: how often that happens.

use std::ops::Range;

use super::cut::cut;
use super::field::{Offload, be16, part, put};
use super::shape::{Shape, Transport};
use super::sum::{never_zero, repaired, sum};
use super::{HEADERS_MAX, OFFLOAD_HEADER};

/// Whether the receiver can notice a wrong bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// The receiving kernel can: the checksum is that of the original bytes.
    Seen,
    /// Only a comparison of contents can: the checksum is that of the damaged bytes, or still to be completed.
    Silent,
}

/// Makes `out` a frame of its own with one segment of `frame`, one bit of which is wrong; the random number `bit` chooses the bit. `shape`
/// must be that of `frame`.
///
/// The bit is one of the transport payload. A segment without payload that is to be [`Damage::Seen`] gets a wrong bit in its transport
/// header, one that only the checksum reveals. Where the kernel checks nothing (UDP without a checksum, protocols that are not known here),
/// `Seen` damage goes unseen; where the receiver checks a sum that is not known here, `Silent` damage is seen.
///
/// Returns false if the segment is unharmed: it has no suitable bit, or `Silent` damage to a fragment was asked for, whose checksum is in
/// another fragment. `out` is empty if there is no such segment.
pub fn damaged(frame: &[u8], shape: &Shape, segment: u16, damage: Damage, bit: u64, out: &mut Vec<u8>) -> bool {
    out.clear();
    let segments = segment..segment.saturating_add(1);
    let mut headers = [0; HEADERS_MAX];
    let (length, payload) = cut(frame, shape, segments.clone(), &mut headers);
    out.extend_from_slice(part(&headers, 0..length));
    out.extend_from_slice(part(frame, payload));
    let end = OFFLOAD_HEADER + shape.bytes(segments) as usize;
    let Some(offload) = Offload::read(out) else { return false };
    let body = OFFLOAD_HEADER + usize::from(shape.headers)..end;
    match damage {
        Damage::Seen => {
            // A sum that would begin in the IP headers is nonsense, and would be written into them.
            if offload.needs_csum() && offload.csum_start >= shape.transport_at {
                complete(out, offload);
            }
            // Without an assertion about the checksum, the receiver has to verify it.
            put(out, 0, [0; OFFLOAD_HEADER]);
            let body = if body.is_empty() { damageable_header(shape, end) } else { body };
            flip_seen(out, shape, body, bit)
        }
        Damage::Silent => flip_silent(out, shape, body, bit, offload.needs_csum()),
    }
}

impl Shape {
    /// Whether [`damaged`] finds a bit for such damage in a segment: its result, known beforehand.
    pub fn can_be_damaged(&self, segment: u16, damage: Damage) -> bool {
        let has_payload = !self.span(&(segment..segment.saturating_add(1))).is_empty();
        match (damage, self.transport()) {
            _ if segment >= self.segments() => false,
            (Damage::Seen, Transport::Tcp { .. } | Transport::Udp { .. } | Transport::Icmp) => true,
            (Damage::Silent, Transport::Fragment) => false,
            _ => has_payload,
        }
    }
}

/// Completes a checksum whose field holds the sum of the pseudo header.
fn complete(frame: &mut [u8], offload: Offload) {
    let start = OFFLOAD_HEADER + usize::from(offload.csum_start);
    let check = never_zero(!sum(part(frame, start..frame.len())));
    put(frame, start + usize::from(offload.csum_offset), check.to_be_bytes());
}

/// The bytes that may be damaged in a segment without payload. A wrong port would take it to another receiver, and lengths are judged before
/// checksums; this leaves TCP's sequence numbers, UDP's checksum, and the bytes behind the checksum of ICMP.
fn damageable_header(shape: &Shape, end: usize) -> Range<usize> {
    let at = OFFLOAD_HEADER + usize::from(shape.transport_at);
    match shape.transport() {
        Transport::Tcp { .. } => at + 4..at + 12,
        Transport::Udp { .. } => at + 6..at + 8,
        Transport::Icmp => at + 4..at + 8,
        Transport::Fragment | Transport::Other => at..end,
    }
}

fn flip_seen(frame: &mut [u8], shape: &Shape, area: Range<usize>, bit: u64) -> bool {
    let Some(bit) = chosen(&area, bit) else { return false };
    flip(frame, bit);
    let check = OFFLOAD_HEADER + usize::from(shape.transport_at) + 6;
    if matches!(shape.transport(), Transport::Udp { .. }) && area.start == check && be16(frame, check) == Some(0) {
        // The result would have meant "no checksum". Only one bit can do that, so the next bit does not.
        flip(frame, bit);
        flip(frame, bit ^ 1);
    }
    true
}

fn flip_silent(frame: &mut [u8], shape: &Shape, area: Range<usize>, bit: u64, is_to_be_completed: bool) -> bool {
    let Some(bit) = chosen(&area, bit) else { return false };
    let transport_at = OFFLOAD_HEADER + usize::from(shape.transport_at);
    let check_at = transport_at
        + match shape.transport() {
            Transport::Fragment => return false,
            _ if is_to_be_completed => return flip(frame, bit),
            Transport::Tcp { .. } => 16,
            Transport::Udp { .. } if be16(frame, transport_at + 6) == Some(0) => return flip(frame, bit),
            Transport::Udp { .. } => 6,
            Transport::Icmp => 2,
            Transport::Other => return flip(frame, bit),
        };
    // The word of the byte, as the checksum counts words.
    let byte = bit / 8;
    let word = |frame: &[u8]| {
        let of = |at: usize| u16::from(frame.get(at).copied().unwrap_or(0));
        if (byte - transport_at).is_multiple_of(2) { of(byte) << 8 } else { of(byte) }
    };
    let old = word(frame);
    flip(frame, bit);
    let check = repaired(be16(frame, check_at).unwrap_or(0), old, word(frame));
    let is_udp = matches!(shape.transport(), Transport::Udp { .. });
    put(frame, check_at, if is_udp { never_zero(check) } else { check }.to_be_bytes());
    true
}

/// The bit of an area that a random number chooses, counted from the start of the frame.
fn chosen(area: &Range<usize>, bit: u64) -> Option<usize> {
    let bits = (area.len() as u64) * 8;
    Some(area.start * 8 + bit.checked_rem(bits)? as usize)
}

fn flip(frame: &mut [u8], bit: usize) -> bool {
    frame.get_mut(bit / 8).map(|byte| *byte ^= 1 << (bit % 8)).is_some()
}
