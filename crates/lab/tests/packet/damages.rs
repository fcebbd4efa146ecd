//! Damage: one bit, which a receiver notices or does not.

use lab::packet::{Damage, Shape, damaged};
use proptest::prelude::*;

use super::kernel::{Offload, offload, on_the_wire, transport, verifies};
use super::samples::{Row, echo, rows, sample};

/// Bits in which two packets of the same length differ, counted from their start.
fn differences(a: &[u8], b: &[u8]) -> Vec<usize> {
    assert_eq!(a.len(), b.len());
    let differs = |bit: &usize| (a[bit / 8] ^ b[bit / 8]) >> (bit % 8) & 1 != 0;
    (0..a.len() * 8).filter(differs).collect()
}

fn payload_at(packet: &[u8]) -> usize {
    let (at, protocol) = transport(packet);
    at + if protocol == 6 { usize::from(packet[at + 12] >> 4) * 4 } else { 8 }
}

/// Damages a segment that is `intact` on the wire.
fn judge(frame: &[u8], segment: u16, bit: u64, intact: &[u8]) {
    let shape = Shape::of(frame).unwrap();
    let mut out = vec![9; 30];
    assert!(damaged(frame, &shape, segment, Damage::Seen, bit, &mut out));
    assert_eq!(offload(&out), Offload::default());
    let packet = &out[10..];
    assert!(!verifies(packet));
    let wrong = differences(packet, intact);
    assert_eq!(wrong.len(), 1);
    let (at, _) = transport(intact);
    let payload_at = payload_at(intact);
    assert!(wrong[0] / 8 >= if payload_at < intact.len() { payload_at } else { at + 4 });
    assert_eq!(Shape::of(&out).unwrap().transport(), shape.transport(), "the receiver is the same");

    let harmed = damaged(frame, &shape, segment, Damage::Silent, bit, &mut out);
    assert_eq!(harmed, payload_at < intact.len());
    assert_eq!(out[0], frame[0]);
    let packets = on_the_wire(&out);
    assert_eq!(packets.len(), 1);
    assert!(verifies(&packets[0]));
    let wrong = differences(&packets[0][payload_at..], &intact[payload_at..]);
    assert_eq!(wrong.len(), usize::from(harmed));
    assert_eq!(packets[0][..at], intact[..at]);
}

/// The frame of a single packet with a complete checksum.
fn alone(flags: u8, packet: &[u8]) -> Vec<u8> {
    Offload { flags, ..Offload::default() }.before(packet)
}

fn without_payload(mut row: Row) -> Row {
    row.payload.clear();
    row
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn one_bit_of_one_segment_is_damaged(row in rows(1..5), bit: u64) {
        let frame = row.frame();
        for segment in 0..row.segments() {
            judge(&frame, segment, bit, &row.segment(segment));
        }
    }

    #[test]
    fn packets_with_complete_checksums_are_damaged(row in rows(1..3), bit: u64, valid: bool) {
        let flags = if valid { 2 } else { 0 };
        judge(&alone(flags, &row.segment(0)), 0, bit, &row.segment(0));
        judge(&alone(flags, &echo(&row)), 0, bit, &echo(&row));
    }

    #[test]
    fn packets_without_payload_are_damaged_in_their_headers(row in rows(1..2).prop_map(without_payload), bit: u64) {
        judge(&row.frame(), 0, bit, &row.segment(0));
        judge(&alone(0, &row.segment(0)), 0, bit, &row.segment(0));
        judge(&alone(0, &echo(&row)), 0, bit, &echo(&row));
    }
}

/// A datagram without payload whose checksum has a single bit must not lose that one: 0 would mean "none".
#[test]
fn a_checksum_does_not_vanish() {
    let mut row = sample(false, 0);
    let with_check = (0..=u16::MAX).map(|port| {
        row.ports.0 = port;
        row.segment(0)
    });
    let packets: Vec<_> = with_check.filter(|packet| packet[26..28] == [0, 0x10]).collect();
    assert!(!packets.is_empty());
    for packet in packets {
        (0..16).for_each(|bit| judge(&alone(0, &packet), 0, bit, &packet));
    }
}

/// Without a checksum there is none to repair; that of a fragment is elsewhere.
#[test]
fn missing_checksums_are_not_repaired() {
    let mut packet = sample(false, 400).segment(0);
    packet[26..28].fill(0);
    let frame = alone(0, &packet);
    let (shape, mut out) = (Shape::of(&frame).unwrap(), Vec::new());
    for damage in [Damage::Seen, Damage::Silent] {
        assert!(damaged(&frame, &shape, 0, damage, 77, &mut out));
        assert_eq!(differences(&out, &frame), [(10 + 28) * 8 + 77]);
    }
    let mut frame = frame;
    frame[10 + 6] = 0x20;
    let shape = Shape::of(&frame).unwrap();
    assert!(!damaged(&frame, &shape, 0, Damage::Silent, 77, &mut out));
    assert_eq!(out, frame);
    assert!(damaged(&frame, &shape, 0, Damage::Seen, 77, &mut out));
    assert_eq!(differences(&out, &frame).len(), 1);
    assert!(!damaged(&frame, &shape, 1, Damage::Seen, 77, &mut out));
    assert!(out.is_empty());
}
