//! The facts of a shape, and the few bytes that ageing changes.

use std::net::IpAddr;

use lab::packet::{Shape, Transport, addresses, age};
use proptest::prelude::*;

use super::kernel::{Offload, sum, transport};
use super::samples::{echo, rows, sample};

fn alone(packet: &[u8]) -> Vec<u8> {
    Offload::default().before(packet)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_shape_has_the_fields_of_its_packet(row in rows(1..4)) {
        let frame = row.frame();
        let shape = Shape::of(&frame).unwrap();
        let (source, destination) = row.ports;
        prop_assert_eq!(shape.ttl(), row.ttl);
        let syn = row.tcp_flags & 0x12 == 2;
        let expected = if row.tcp {
            Transport::Tcp { source, destination, syn }
        } else {
            Transport::Udp { source, destination }
        };
        prop_assert_eq!(shape.transport(), expected);
        let address = |at: usize| {
            if row.v6 {
                IpAddr::from(<[u8; 16]>::try_from(&row.addresses[at * 16..at * 16 + 16]).unwrap())
            } else {
                IpAddr::from(<[u8; 4]>::try_from(&row.addresses[at * 4..at * 4 + 4]).unwrap())
            }
        };
        prop_assert_eq!(addresses(&frame), Some((address(0), address(1))));
        prop_assert_eq!(Shape::of(&alone(&echo(&row))).unwrap().transport(), Transport::Icmp);
    }

    #[test]
    fn all_segments_of_a_flow_have_one_hash(row in rows(2..6), other in any::<u16>()) {
        let flow = Shape::of(&row.frame()).unwrap().flow();
        for index in 0..row.segments() {
            prop_assert_eq!(Shape::of(&alone(&row.segment(index))).unwrap().flow(), flow);
        }
        let mut changed = row.clone();
        changed.ports.0 ^= other;
        prop_assert_eq!(Shape::of(&changed.frame()).unwrap().flow() == flow, other == 0);
        let mut changed = row.clone();
        changed.addresses[3] ^= other as u8;
        prop_assert_eq!(Shape::of(&changed.frame()).unwrap().flow() == flow, other as u8 == 0);
    }

    #[test]
    fn ageing_keeps_the_checksum(row in rows(1..3), n: u8) {
        let before = row.frame();
        let mut frame = before.clone();
        age(&mut frame, n);
        prop_assert_eq!(Shape::of(&frame).unwrap().ttl(), row.ttl.saturating_sub(n));
        let mut aged = row.clone();
        aged.ttl = row.ttl.saturating_sub(n);
        prop_assert_eq!(&frame, &aged.frame());
        if !row.v6 {
            let (at, _) = transport(&frame[10..]);
            prop_assert_eq!(sum(&frame[10..10 + at], 0), 0xffff);
        }
    }

    #[test]
    fn a_truncated_frame_has_no_shape(row in rows(1..3), at: prop::sample::Index) {
        let frame = row.frame();
        prop_assert_eq!(Shape::of(&frame[..at.index(frame.len())]), None);
    }
}

/// Used modulo small numbers: connections of one host spread evenly.
#[test]
fn flows_spread_evenly() {
    let mut row = sample(false, 400);
    for (n, v6) in [(2, false), (3, true), (4, false), (7, true), (16, false)] {
        let mut counts = vec![0u32; n];
        for port in 0..8_000 {
            (row.v6, row.ports.0) = (v6, 32_768 + port);
            counts[(Shape::of(&row.frame()).unwrap().flow() % n as u64) as usize] += 1;
        }
        let mean = 8_000 / n as u32;
        // Five standard deviations at 16, and more at fewer.
        assert!(counts.iter().all(|count| count.abs_diff(mean) < mean / 5), "{counts:?}");
    }
}

/// All fragments of a datagram belong to one flow, and none has ports.
#[test]
fn fragments_share_one_flow() {
    let mut row = sample(false, 400);
    let mut found = Vec::new();
    for field in [[0x20, 0], [0x20, 9], [0, 9]] {
        let mut packet = row.segment(0);
        packet[6..8].copy_from_slice(&field);
        found.push(Shape::of(&alone(&packet)).unwrap());
    }
    row.v6 = true;
    for field in [[0, 1], [0, 9], [0, 8]] {
        let body = [&[17, 0, field[0], field[1], 0, 0, 0, 1][..], &row.payload].concat();
        found.push(Shape::of(&alone(&row.ip(0, 44, &body))).unwrap());
    }
    assert!(found.iter().all(|shape| shape.transport() == Transport::Fragment && shape.segments() == 1));
    assert!(found[..3].iter().all(|shape| shape.flow() == found[0].flow()));
    assert!(found[3..].iter().all(|shape| shape.flow() == found[3].flow()));
    // A fragment header around all of a datagram fragments nothing.
    let body = [&[17, 0, 0, 0, 0, 0, 0, 1, 0, 5, 0, 6, 0, 8, 0, 0][..]].concat();
    let shape = Shape::of(&alone(&row.ip(0, 44, &body))).unwrap();
    assert_eq!(shape.transport(), Transport::Udp { source: 5, destination: 6 });
}
