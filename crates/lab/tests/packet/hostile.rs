//! Hostile bytes: random ones, and good frames with changes. Nothing panics, and all statements agree.

use lab::fuzzing;
use proptest::collection::vec;
use proptest::prelude::*;

use super::kernel::Offload;
use super::samples::{echo, rows};

fn run_all(frame: &[u8], n: u16, bit: u64) {
    fuzzing::packet(&[&n.to_le_bytes()[..], &bit.to_le_bytes(), frame].concat());
}

/// Good frames with some bytes changed, most of them in the headers, or cut short, or with bytes appended.
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

/// Two thousand of each; `make soak` asks for more (`PROPTEST_CASES`).
fn cases() -> ProptestConfig {
    let config = ProptestConfig::default();
    ProptestConfig { cases: config.cases.max(2_000), ..config }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn parsers_take_random_bytes(frame in vec(any::<u8>(), 0..200), n: u16, bit: u64, version in 0..4u8) {
        let mut frame = frame;
        if let (Some(byte), true) = (frame.get_mut(10), version < 2) {
            *byte = if version == 0 { 0x45 } else { 0x60 };
        }
        run_all(&frame, n, bit);
    }

    #[test]
    fn parsers_take_mutated_frames(frame in mutated(), n: u16, bit: u64) {
        run_all(&frame, n, bit);
    }

    #[test]
    fn parsers_take_extension_headers(frame in extended(), n: u16, bit: u64) {
        run_all(&frame, n, bit);
    }
}
