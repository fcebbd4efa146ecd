//! Entry points for fuzzing, one for each parser of foreign input: property tests run them in every `make test`, and `make fuzz` (`fuzz/` at
//! the root of the workspace) for as long as wanted.
//!
//! Each takes any bytes and must return: no panic, and all statements about a packet agree.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use crate::packet::{Damage, HEADERS_MAX, Shape, addresses, age, cut, damaged, time_exceeded, too_big, unreachable};

/// In rows of more segments than this, segments are not tested one by one.
const SEGMENTS_MAX: u16 = 2_000;

/// Tests a frame of a TUN device, which follows ten random bytes: the range of segments (2), and the bit that is damaged (8).
pub fn packet(bytes: &[u8]) {
    let Some((n, rest)) = bytes.split_first_chunk::<2>() else { return };
    let Some((bit, frame)) = rest.split_first_chunk::<8>() else { return };
    let (n, bit) = (u16::from_le_bytes(*n), u64::from_le_bytes(*bit));
    age(&mut frame.to_vec(), n as u8);
    let found = addresses(frame);
    let Some(shape) = Shape::of(frame) else { return };
    assert!(found.is_some());
    let segments = shape.segments();
    assert!(segments > 0 && shape.largest() <= shape.bytes(0..segments));
    assert_eq!(run(frame, &shape, 0..segments), frame);
    let (some, more) = (n % segments, n.wrapping_mul(31) % segments);
    for (start, end) in [(some, more), (more, some), (some, segments), (0, some), (n, u16::MAX), (n, n)] {
        let run = run(frame, &shape, start..end);
        assert_eq!(run.is_empty(), start >= end.min(segments));
        if !run.is_empty() && segments > 1 {
            let whole = Shape::of(&run).map(|found| found.bytes(0..found.segments()));
            assert_eq!(whole, Some(shape.bytes(start..end)));
        }
    }
    if segments < SEGMENTS_MAX {
        let each: u32 = (0..segments).map(|index| shape.bytes(index..index + 1)).sum();
        assert_eq!(each, shape.bytes(0..segments));
    }
    check_damage(frame, &shape, [0, some, segments - 1, n], bit);
    check_answers(frame, &shape, n);
}

/// Cuts a run of segments out of a frame.
fn run(frame: &[u8], shape: &Shape, segments: Range<u16>) -> Vec<u8> {
    let mut headers = [0xee; HEADERS_MAX];
    let (length, payload) = cut(frame, shape, segments, &mut headers);
    [&headers[..length], &frame[payload]].concat()
}

fn check_damage(frame: &[u8], shape: &Shape, segments: [u16; 4], bit: u64) {
    let mut out = Vec::new();
    for damage in [Damage::Seen, Damage::Silent] {
        for segment in segments {
            let harmed = damaged(frame, shape, segment, damage, bit, &mut out);
            assert_eq!(harmed, shape.can_be_damaged(segment, damage));
            assert!(Shape::of(&out).is_some() || segment >= shape.segments());
        }
    }
}

fn check_answers(frame: &[u8], shape: &Shape, mtu: u16) {
    for router in [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()] {
        let answers = [
            time_exceeded(frame, shape, router),
            too_big(frame, shape, router, mtu),
            unreachable(frame, shape, router),
        ];
        for answer in answers.into_iter().flatten() {
            assert!(answer.len() <= 10 + 1_280 && Shape::of(&answer).is_some());
        }
    }
}
