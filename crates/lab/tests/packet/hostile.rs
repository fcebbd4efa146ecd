//! Strangers' bytes: random ones, and good frames with something changed. Nothing panics, and what is said adds up.

use std::net::{Ipv4Addr, Ipv6Addr};

use lab::packet::{Damage, Shape, addresses, age, damaged, time_exceeded, too_big, unreachable};
use proptest::collection::vec;
use proptest::prelude::*;

use super::cuts::run;
use super::kernel::Offload;
use super::samples::{echo, rows};

fn everything(frame: &[u8], n: u16, bit: u64) {
    let mut aged = frame.to_vec();
    age(&mut aged, n as u8);
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
            let found = Shape::of(&run).unwrap();
            assert_eq!(found.bytes(0..found.segments()), shape.bytes(start..end));
        }
    }
    if segments < 2_000 {
        let each: u32 = (0..segments).map(|index| shape.bytes(index..index + 1)).sum();
        assert_eq!(each, shape.bytes(0..segments));
    }
    let mut out = Vec::new();
    for damage in [Damage::Seen, Damage::Silent] {
        for segment in [0, some, segments - 1, n] {
            let harmed = damaged(frame, &shape, segment, damage, bit, &mut out);
            assert_eq!(harmed, shape.can_be_damaged(segment, damage));
            assert!(Shape::of(&out).is_some() || segment >= segments);
        }
    }
    for router in [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()] {
        let answers = [
            time_exceeded(frame, &shape, router),
            too_big(frame, &shape, router, n),
            unreachable(frame, &shape, router),
        ];
        for answer in answers.into_iter().flatten() {
            assert!(answer.len() <= 10 + 1_280 && Shape::of(&answer).is_some());
        }
    }
}

/// Good frames with some bytes changed, most of them in the headers, or cut short, or with something behind them.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let change = (0..8u8, any::<prop::sample::Index>(), any::<u8>());
    (rows(1..4), any::<bool>(), vec(change, 0..5)).prop_map(|(row, is_echo, changes)| {
        let mut frame = if is_echo { Offload::default().before(&echo(&row)) } else { row.frame() };
        for (how, at, byte) in changes {
            let at = match how {
                0 => at.index(frame.len()),
                _ => at.index(frame.len().min(80)),
            };
            match how {
                1 if byte < 16 => frame.truncate(at.max(1)),
                1 => frame.push(byte),
                2..=4 => frame[at] ^= 1 << (byte % 8),
                _ => frame[at] = byte,
            }
        }
        frame
    })
}

/// Random bytes that begin like IPv6 with extension headers.
fn extended() -> impl Strategy<Value = Vec<u8>> {
    let next = prop::sample::select(vec![0, 6, 17, 43, 44, 51, 58, 59, 60, 200u8]);
    (any::<[u8; 10]>(), vec((next, 0..4u8, any::<[u8; 6]>()), 0..12), vec(any::<u8>(), 0..90)).prop_map(
        |(offload, extensions, rest)| {
            let first = extensions.first().map_or(6, |(next, ..)| *next);
            let mut packet = vec![0x60, 0, 0, 0, 0, 0, first, 64];
            packet.extend_from_slice(&[0x21; 32]);
            for (next, units, body) in extensions.iter().skip(1) {
                packet.extend_from_slice(&[*next, *units]);
                packet.extend_from_slice(body);
                packet.extend(vec![0; usize::from(*units) * 8]);
            }
            packet.extend_from_slice(&rest);
            let length = (packet.len() - 40) as u16;
            packet[4..6].copy_from_slice(&length.to_be_bytes());
            [&offload[..], &packet].concat()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn random_bytes(frame in vec(any::<u8>(), 0..200), n: u16, bit: u64, version in 0..4u8) {
        let mut frame = frame;
        if let (Some(byte), true) = (frame.get_mut(10), version < 2) {
            *byte = if version == 0 { 0x45 } else { 0x60 };
        }
        everything(&frame, n, bit);
    }

    #[test]
    fn mutated_frames(frame in mutated(), n: u16, bit: u64) {
        everything(&frame, n, bit);
    }

    #[test]
    fn extension_headers(frame in extended(), n: u16, bit: u64) {
        everything(&frame, n, bit);
    }
}
