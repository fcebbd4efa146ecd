//! Runs of segments of a super-packet: the headers that each run needs, and where its payload is.
//!
//! Does not know: why a run ends where it does. It copies no payload.

use std::ops::Range;

use super::field::{GSO_ECN, GSO_NONE, Offload, be16, be32, part, put};
use super::shape::{Shape, Transport};
use super::sum::{replaced, sum};
use super::{HEADERS_MAX, OFFLOAD_HEADER};

const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;

/// Writes the headers of a run of segments into `out`, the offload header first. Returns their length, and the range of the payload in
/// `frame`: the run is the headers followed by the payload.
///
/// The run of all segments is the frame itself. Segments that do not exist are left out; a run of none is 0 bytes.
/// `shape` must be that of `frame`.
pub fn cut(frame: &[u8], shape: &Shape, segments: Range<u16>, out: &mut [u8; HEADERS_MAX]) -> (usize, Range<usize>) {
    let segments = segments.start..segments.end.min(shape.segments());
    if segments.is_empty() {
        return (0, 0..0);
    }
    let headers = match shape.segments() {
        1 => OFFLOAD_HEADER,
        _ => OFFLOAD_HEADER + usize::from(shape.headers),
    };
    let (Some(source), Some(target)) = (frame.get(..headers), out.get_mut(..headers)) else { return (0, 0..0) };
    target.copy_from_slice(source);
    if segments == (0..shape.segments()) {
        return (headers, headers..frame.len());
    }
    rewrite(target, shape, &segments);
    let payload = shape.span(&segments);
    (headers, headers + payload.start as usize..headers + payload.end as usize)
}

/// Changes the headers of the whole row to those of a shorter run.
fn rewrite(headers: &mut [u8], shape: &Shape, segments: &Range<u16>) {
    let payload = shape.span(segments);
    let length = u32::from(shape.headers) + (payload.end - payload.start);
    let is_first = segments.start == 0;
    let is_last = segments.end == shape.segments();
    if let Some(mut offload) = Offload::read(headers) {
        offload.hdr_len = shape.headers;
        if segments.len() == 1 {
            (offload.gso_type, offload.gso_size) = (GSO_NONE, 0);
        } else if !is_first {
            offload.gso_type &= !GSO_ECN;
        }
        offload.write(headers);
    }
    let packet = headers.get_mut(OFFLOAD_HEADER..).unwrap_or_default();
    // A row is at most 64 KiB, so that all lengths of a run of it fit their fields.
    if shape.is_v6 {
        put(packet, 4, (length as u16).wrapping_sub(40).to_be_bytes());
    } else {
        let id = be16(packet, 4).unwrap_or(0).wrapping_add(segments.start);
        put(packet, 2, (length as u16).to_be_bytes());
        put(packet, 4, id.to_be_bytes());
        put(packet, 10, [0, 0]);
        let check = !sum(part(packet, 0..usize::from(shape.transport_at)));
        put(packet, 10, check.to_be_bytes());
    }
    let transport = packet.get_mut(usize::from(shape.transport_at)..).unwrap_or_default();
    let at = u32::from(shape.transport_at);
    let old_length = (shape.length - at) as u16;
    let new_length = (length - at) as u16;
    if let Transport::Tcp { .. } = shape.transport() {
        let sequence = be32(transport, 4).unwrap_or(0).wrapping_add(payload.start);
        put(transport, 4, sequence.to_be_bytes());
        if let Some(flags) = transport.get_mut(13) {
            *flags &= !(if is_last { 0 } else { FIN | PSH } | if is_first { 0 } else { CWR });
        }
        rebase(transport, 16, old_length, new_length);
    } else {
        put(transport, 4, new_length.to_be_bytes());
        rebase(transport, 6, old_length, new_length);
    }
}

/// Updates a checksum field that holds the sum of the pseudo header, of which only the length changes.
fn rebase(transport: &mut [u8], check_at: usize, old: u16, new: u16) {
    let sum = be16(transport, check_at).unwrap_or(0);
    put(transport, check_at, replaced(sum, old, new).to_be_bytes());
}
