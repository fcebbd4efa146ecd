//! Runs of segments: the kernel makes the same packets of a run as of that part of the whole row.

use lab::packet::{HEADERS_MAX, Shape, cut};
use proptest::prelude::*;

use super::kernel::{offload, on_the_wire, transport, verifies};
use super::samples::{Row, rows, sample};

/// A run as a frame of its own.
pub fn run(frame: &[u8], shape: &Shape, segments: std::ops::Range<u16>) -> Vec<u8> {
    let mut headers = [0xee; HEADERS_MAX];
    let (length, payload) = cut(frame, shape, segments, &mut headers);
    [&headers[..length], &frame[payload]].concat()
}

fn judge(row: &Row, frame: &[u8], whole: &Shape, segments: std::ops::Range<u16>) {
    let run = run(frame, whole, segments.clone());
    let (offload, original) = (offload(&run), offload(frame));
    let expected: Vec<Vec<u8>> = segments.clone().map(|index| row.segment(index)).collect();
    assert_eq!(on_the_wire(&run), expected);
    assert!(expected.iter().all(|packet| verifies(packet)));
    assert_eq!(whole.bytes(segments.clone()) as usize, expected.iter().map(Vec::len).sum::<usize>());
    let shape = Shape::of(&run).unwrap();
    assert_eq!(usize::from(shape.segments()), segments.len());
    assert_eq!(shape.bytes(0..shape.segments()), whole.bytes(segments.clone()));
    assert_eq!((shape.flow(), shape.ttl()), (whole.flow(), whole.ttl()));
    if segments == (0..whole.segments()) {
        assert_eq!(run, frame);
        return;
    }
    assert_eq!(
        (offload.flags, offload.csum_start, offload.csum_offset),
        (1, original.csum_start, original.csum_offset)
    );
    let (at, _) = transport(&run[10..]);
    let header = if row.tcp { usize::from(run[10 + at + 12] >> 4) * 4 } else { 8 };
    assert_eq!(usize::from(offload.hdr_len), at + header);
    let ecn = if segments.start == 0 { 0x80 } else { 0 };
    let gso_type = if segments.len() == 1 { 0 } else { original.gso_type & (0x7f | ecn) };
    assert_eq!(offload.gso_type, gso_type);
    assert_eq!(offload.gso_size, if segments.len() == 1 { 0 } else { row.mss });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn runs_become_the_same_segments(row in rows(1..9)) {
        let frame = row.frame();
        let shape = Shape::of(&frame).unwrap();
        prop_assert_eq!(shape.segments(), row.segments());
        prop_assert_eq!(on_the_wire(&frame).len(), usize::from(row.segments()));
        for start in 0..row.segments() {
            for end in start + 1..=row.segments() {
                judge(&row, &frame, &shape, start..end);
            }
        }
    }

    #[test]
    fn runs_can_be_cut_again(row in rows(3..9), at: prop::sample::Index) {
        let frame = row.frame();
        let whole = Shape::of(&frame).unwrap();
        let at = 1 + at.index(usize::from(row.segments()) - 2) as u16;
        let tail = run(&frame, &whole, at..row.segments());
        let shape = Shape::of(&tail).unwrap();
        for index in at..row.segments() {
            let packets = on_the_wire(&run(&tail, &shape, index - at..index - at + 1));
            prop_assert_eq!(packets, vec![row.segment(index)]);
        }
    }

    #[test]
    fn the_bytes_of_all_segments_are_those_of_the_row(row in rows(1..40)) {
        let shape = Shape::of(&row.frame()).unwrap();
        let n = shape.segments();
        let each: Vec<u32> = (0..n).map(|index| shape.bytes(index..index + 1)).collect();
        prop_assert_eq!(each.iter().sum::<u32>(), shape.bytes(0..n));
        prop_assert_eq!(each.iter().copied().max(), Some(shape.largest()));
        prop_assert_eq!(shape.bytes(n..n + 5) + shape.bytes(0..0), 0);
        prop_assert_eq!(shape.bytes(0..u16::MAX), shape.bytes(0..n));
    }
}

/// The largest possible packets, in the smallest useful segments.
#[test]
fn the_largest_rows_are_cut_like_others() {
    for (v6, tcp) in [(false, false), (false, true), (true, false), (true, true)] {
        let headers = if v6 { 0 } else { 20 } + if tcp { 20 } else { 8 };
        let row = Row { tcp, mss: 536, ..sample(v6, 65_535 - headers) };
        let frame = row.frame();
        assert!(frame.len() <= lab::packet::FRAME_MAX);
        let shape = Shape::of(&frame).unwrap();
        let n = shape.segments();
        assert_eq!(n, row.segments());
        for segments in [0..1, 0..n, 0..n - 1, 1..n, n - 1..n, 40..60] {
            judge(&row, &frame, &shape, segments);
        }
    }
}

/// Inconsistent rows pass whole.
#[test]
fn an_inconsistent_row_is_one_segment() {
    let frame = sample(false, 1_700).frame();
    assert_eq!(Shape::of(&frame).unwrap().segments(), 4);
    for (at, byte) in [(0, 0), (1, 0), (1, 3), (1, 2), (6, 1), (8, 1)] {
        let mut frame = frame.clone();
        frame[at] = byte;
        let shape = Shape::of(&frame).unwrap();
        assert_eq!(shape.segments(), 1);
        assert_eq!(shape.largest() as usize, frame.len() - 10);
        assert_eq!(run(&frame, &shape, 0..1), frame);
        assert!(run(&frame, &shape, 1..2).is_empty());
    }
}
