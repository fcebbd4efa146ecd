//! Bytes from a hostile peer: random bytes, and golden encodings with changes. Nothing panics, memory stays bounded, and every message
//! that can be decoded has one encoding only.

// Tests may unwrap; clippy.toml allows it in test functions only, not in the functions that they call.
#![allow(clippy::unwrap_used, missing_docs)]

// Shared with the golden files.
#[allow(dead_code)]
#[path = "golden/samples.rs"]
mod samples;

use proptest::collection::vec;
use proptest::prelude::*;
use wire::frame::{self, Entry, Frame, HEAD_BYTES, Offered, UNKNOWN_SIZE, Verdict};
use wire::fuzzing;
use wire::record::Part;

/// Every golden frame, encoded.
fn golden() -> Vec<Vec<u8>> {
    let encoded = |frame: &Frame| {
        let mut out = Vec::new();
        frame::encode(frame, &mut out);
        out
    };
    samples::frames().iter().flat_map(|(_, frames)| frames.iter().map(encoded).collect::<Vec<_>>()).collect()
}

/// Some golden frames, each with bytes changed, removed or inserted. The length in its head is corrected.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let change = (0..4u8, any::<prop::sample::Index>(), any::<u8>());
    let one = (prop::sample::select(golden()), vec(change, 0..4)).prop_map(|(mut frame, changes)| {
        for (how, at, byte) in changes {
            let at = HEAD_BYTES - 2 + at.index(frame.len() - HEAD_BYTES + 2);
            match how {
                0 => frame[at] = byte,
                1 => frame[at] ^= 1 << (byte % 8),
                2 if frame.len() > HEAD_BYTES => drop(frame.remove(at)),
                _ => frame.insert(at, byte),
            }
        }
        let len = (frame.len() - 4) as u32;
        frame[..4].copy_from_slice(&len.to_be_bytes());
        frame
    });
    vec(one, 1..8).prop_map(|frames| frames.concat())
}

/// Gives the bytes to every decoder.
fn decode_all_ways(bytes: &[u8]) {
    fuzzing::frames(bytes);
    fuzzing::record(bytes);
    fuzzing::join(bytes);
    fuzzing::sender_hears(bytes);
    fuzzing::receiver_hears(bytes);
}

/// A thousand cases of each property. `make soak` runs more (`PROPTEST_CASES`), and `make fuzz` runs for hours.
fn cases() -> ProptestConfig {
    let config = ProptestConfig::default();
    ProptestConfig { cases: config.cases.max(1_000), ..config }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn random_bytes_do_not_panic(bytes in vec(any::<u8>(), 0..600)) {
        decode_all_ways(&bytes);
    }

    #[test]
    fn changed_frames_do_not_panic(bytes in mutated(), piece: u8) {
        decode_all_ways(&bytes);
        let mut pieces = vec![piece];
        pieces.extend_from_slice(&bytes);
        fuzzing::frames(&pieces);
    }

    #[test]
    fn changed_records_and_joins_do_not_panic(at: prop::sample::Index, bit in 0..8u8) {
        let mut bytes = samples::record().concat();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        fuzzing::record(&bytes);
        let mut bytes = samples::join().encode();
        bytes[at % samples::join().encode().len()] ^= 1 << bit;
        fuzzing::join(&bytes);
    }

    #[test]
    fn any_body_of_any_type_has_one_encoding(kind in 0..24u8, body in vec(any::<u8>(), 0..200)) {
        assert_one_encoding(kind, &body);
    }

    #[test]
    fn changed_frames_have_one_encoding(bytes in mutated()) {
        // Cuts the bytes into frames as `FrameBuffer` does.
        let mut at = 0;
        while at + HEAD_BYTES <= bytes.len() {
            let len = u32::from_be_bytes(*bytes[at..].first_chunk().unwrap()) as usize;
            assert_one_encoding(bytes[at + 4], &bytes[at + HEAD_BYTES..at + 4 + len]);
            at += 4 + len;
        }
    }

    #[test]
    fn a_sender_survives_any_frames_of_a_receiver(frames in vec(from_receiver(), 0..30)) {
        fuzzing::sender_hears(&encoded(&frames));
    }

    #[test]
    fn a_receiver_survives_any_frames_of_a_sender(frames in vec(from_sender(), 0..30)) {
        fuzzing::receiver_hears(&encoded(&frames));
    }
}

/// The other end must not decide how many threads start here, or which commands people are advised to run.
#[test]
fn accounts_and_facts_are_bounded() {
    let refused = |frame: &Frame| {
        let mut bytes = Vec::new();
        frame::encode(frame, &mut bytes);
        frame::decode(bytes[4], &bytes[HEAD_BYTES..]).is_err()
    };
    let account = model::account::Account::default();
    assert!(!refused(&Frame::Account(Box::new(account.clone()))));
    let many = model::account::Account { streams: u32::MAX, ..account.clone() };
    assert!(refused(&Frame::Account(Box::new(many))));
    for name in ["bbr; reboot", "bbr\n", "\u{1b}[2J", "a_name_of_16_byte"] {
        assert!(refused(&Frame::Account(Box::new(model::account::Account { missed: name.into(), ..account.clone() }))));
        let stream = model::v1::Stream { congestion: name.into(), ..model::v1::Stream::default() };
        assert!(refused(&Frame::Facts(vec![stream])), "{name:?}");
    }
}

/// Asserts that a body that can be decoded is encoded to the same bytes. Two things of later versions are exceptions: an unknown
/// fault is decoded as a fault of the peer, and unknown suites are left out.
fn assert_one_encoding(kind: u8, body: &[u8]) {
    let Ok(frame) = frame::decode(kind, body) else { return };
    let mut bytes = Vec::new();
    frame::encode(&frame, &mut bytes);
    let again = &bytes[HEAD_BYTES..];
    assert_eq!(bytes[4], kind);
    if matches!(frame, Frame::Login { .. }) && again.len() < body.len() {
        return;
    }
    assert_eq!(again.len(), body.len(), "{frame:?}");
    let is_unknown_fault = |new: u8, old: u8| new == model::Fault::Peer.code() && !(1..=8).contains(&old);
    for (new, old) in again.iter().zip(body) {
        assert!(
            new == old || is_unknown_fault(*new, *old),
            "{frame:?} is encoded as {again:02x?}, and was {body:02x?}"
        );
    }
}

fn encoded(frames: &[Frame]) -> Vec<u8> {
    let mut out = Vec::new();
    frames.iter().for_each(|frame| frame::encode(frame, &mut out));
    out
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..14u64, Just(1 << 20), Just(i64::MAX as u64), Just(u64::MAX - 1), Just(u64::MAX), any::<u64>()]
}

fn refusal() -> model::Refusal {
    model::Refusal::new(model::Fault::Storage, "no")
}

fn claim() -> impl Strategy<Value = frame::Claim> {
    (number(), number(), any::<u32>()).prop_map(|(offset, len, crc32c)| frame::Claim { offset, len, crc32c })
}

fn from_receiver() -> impl Strategy<Value = Frame> {
    let digest = model::Digest::crc32c(7);
    let verdict = prop_oneof![
        Just(Verdict::Want),
        Just(Verdict::WantUnless(digest)),
        vec(claim(), 0..3).prop_map(Verdict::WantRest),
    ];
    let outcome =
        prop_oneof![Just(frame::Outcome::Done), Just(frame::Outcome::Skipped), Just(frame::Outcome::Failed(refusal()))];
    prop_oneof![
        vec((number(), verdict), 1..4).prop_map(Frame::Verdicts),
        vec((0..14u64, outcome), 1..4).prop_map(Frame::Outcomes),
        vec((number(), number(), number()), 1..4).prop_map(Frame::Again),
        vec((0..3u32, number()), 1..3).prop_map(Frame::Received),
        Just(Frame::Finished(frame::Totals::default())),
    ]
}

fn from_sender() -> impl Strategy<Value = Frame> {
    let mtime = model::Timestamp::default();
    let what = prop_oneof![
        Just(Offered::Dir { mode: 0, mtime }),
        number().prop_map(move |size| Offered::File {
            mode: 0,
            mtime,
            size: if size > i64::MAX as u64 { UNKNOWN_SIZE } else { size },
        }),
        number().prop_map(|to| Offered::HardLink { to, path: model::RelPath::root() }),
        Just(Offered::Special),
        Just(Offered::Failed(refusal())),
    ];
    let name = model::Name::new(b"x").unwrap();
    let entry = (11..20u64, 0..14u64, what).prop_map(move |(id, parent, what)| Entry::New {
        id,
        parent,
        name: name.clone(),
        what,
        attributes: None,
    });
    let entry = prop_oneof![3 => entry, 1 => (0..14u64).prop_map(Entry::Leave)];
    let end = (number(), number()).prop_map(|(id, size)| frame::End { id, size, digests: vec![] });
    prop_oneof![
        vec(entry, 1..3).prop_map(Frame::Entries),
        vec(part(), 1..4).prop_map(|parts| Frame::Inline(holes(&parts))),
        vec(end, 1..3).prop_map(Frame::Ends),
        vec((number(), Just(refusal())), 1..3).prop_map(Frame::Drops),
        vec(number(), 1..3).prop_map(Frame::Same),
        vec((number(), number(), number()), 1..3).prop_map(Frame::Held),
        (9..10u64, prop_oneof![Just((10, 20)), Just((50, 5))])
            .prop_map(|(id, (at, len))| Frame::Held(vec![(id, at, len)])),
        number().prop_map(Frame::ScanEnd),
    ]
}

fn part() -> impl Strategy<Value = Part> {
    (0..14u64, number(), number(), any::<u32>(), any::<bool>()).prop_map(|(file, offset, len, crc32c, whole)| Part {
        file,
        offset: if whole { 0 } else { offset },
        len,
        crc32c,
        hole: true,
        whole,
    })
}

/// A record of holes only. Its parts may have any length.
fn holes(parts: &[Part]) -> Vec<u8> {
    let head = wire::record::Head::new(parts.len(), 0);
    let mut table = vec![0; head.table_len()];
    wire::record::encode_table(&head, parts, &mut table);
    [&head.encode()[..], &table].concat()
}
