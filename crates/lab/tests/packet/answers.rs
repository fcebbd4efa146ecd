//! The answers of routers, read by an independent parser.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use etherparse::{Icmpv4Type, Icmpv6Type, LaxSlicedPacket, SlicedPacket, TransportSlice, icmpv4, icmpv6};
use lab::packet::{Shape, addresses, age, time_exceeded, too_big, unreachable};
use proptest::prelude::*;

use super::kernel::{Offload, get16, sum, transport, verifies};
use super::samples::{Row, echo, rows, sample};

fn router(v6: bool) -> IpAddr {
    if v6 { Ipv6Addr::new(0xfd88, 0, 0, 0, 0, 0, 0, 9).into() } else { Ipv4Addr::new(10, 99, 0, 9).into() }
}

fn all(frame: &[u8], v6: bool) -> [Option<Vec<u8>>; 3] {
    let shape = Shape::of(frame).unwrap();
    let router = router(v6);
    [time_exceeded(frame, &shape, router), too_big(frame, &shape, router, 1_400), unreachable(frame, &shape, router)]
}

/// Checks the headers of an answer; returns the packet that it quotes.
fn quotation(answer: &[u8], which: usize, v6: bool) -> Vec<u8> {
    assert_eq!(answer[..10], [0; 10]);
    let packet = &answer[10..];
    assert!(verifies(packet));
    let parsed = SlicedPacket::from_ip(packet).unwrap();
    match parsed.transport.unwrap() {
        TransportSlice::Icmpv4(icmp) if !v6 => {
            assert!(packet.len() <= 576);
            let ip = parsed.net.as_ref().unwrap().ipv4_ref().unwrap().header();
            assert_eq!((ip.ttl(), ip.identification()), (64, 0));
            let expected = [
                Icmpv4Type::TimeExceeded(icmpv4::TimeExceededCode::TtlExceededInTransit),
                Icmpv4Type::DestinationUnreachable(icmpv4::DestUnreachableHeader::FragmentationNeeded {
                    next_hop_mtu: 1_400,
                }),
                Icmpv4Type::DestinationUnreachable(icmpv4::DestUnreachableHeader::Network),
            ];
            assert_eq!(icmp.icmp_type(), expected[which]);
            assert_eq!(icmp.icmp_type().calc_checksum(icmp.payload()), icmp.checksum());
            icmp.payload().to_vec()
        }
        TransportSlice::Icmpv6(icmp) if v6 => {
            assert!(packet.len() <= 1_280);
            let ip = parsed.net.as_ref().unwrap().ipv6_ref().unwrap().header();
            assert_eq!(ip.hop_limit(), 64);
            let expected = [
                Icmpv6Type::TimeExceeded(icmpv6::TimeExceededCode::HopLimitExceeded),
                Icmpv6Type::PacketTooBig { mtu: 1_400 },
                Icmpv6Type::DestinationUnreachable(icmpv6::DestUnreachableCode::NoRoute),
            ];
            assert_eq!(icmp.icmp_type(), expected[which]);
            assert!(icmp.is_checksum_valid(ip.source(), ip.destination()));
            icmp.payload().to_vec()
        }
        other => panic!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn answers_quote_the_first_segment(row in rows(1..5), n: u8) {
        let mut frame = row.frame();
        age(&mut frame, n);
        let mut row = row;
        row.ttl = row.ttl.saturating_sub(n);
        let first = row.segment(0);
        let limit = if row.v6 { 1_280 - 48 } else { 576 - 28 };
        for (which, answer) in all(&frame, row.v6).into_iter().enumerate() {
            let answer = answer.unwrap();
            let quotation = quotation(&answer, which, row.v6);
            let (sender, _) = addresses(&frame).unwrap();
            prop_assert_eq!(addresses(&answer), Some((router(row.v6), sender)));
            let mut expected = first[..first.len().min(limit)].to_vec();
            prop_assert_eq!(quotation.len(), expected.len());
            // The transport checksum is not complete yet; nothing else differs, unless the row is not cut.
            let (at, _) = transport(&first);
            let check = at + row.check_at();
            expected[check..check + 2].copy_from_slice(&quotation[check..check + 2]);
            prop_assert_eq!(&quotation, &expected);
            if !row.v6 {
                prop_assert_eq!(sum(&quotation[..at], 0), 0xffff);
            }
            prop_assert!(LaxSlicedPacket::from_ip(&quotation).is_ok());
            // No answer to an answer.
            prop_assert_eq!(all(&answer, row.v6), [None, None, None]);
        }
        prop_assert_eq!(all(&frame, !row.v6), [None, None, None]);
    }

    #[test]
    fn pings_are_answered(row in rows(1..2)) {
        let frame = Offload::default().before(&echo(&row));
        for (which, answer) in all(&frame, row.v6).into_iter().enumerate() {
            let quotation = quotation(&answer.unwrap(), which, row.v6);
            prop_assert_eq!(&quotation[..], &echo(&row)[..quotation.len()]);
        }
    }
}

#[test]
fn a_source_that_is_not_one_host_is_not_answered() {
    let mut row = sample(false, 400);
    assert!(all(&row.frame(), false).iter().all(Option::is_some));
    for source in [[0; 4], [255; 4], [224, 0, 0, 1], [127, 0, 0, 1]] {
        row.addresses[..4].copy_from_slice(&source);
        assert_eq!(all(&row.frame(), false), [None, None, None]);
    }
    row = sample(true, 400);
    assert!(all(&row.frame(), true).iter().all(Option::is_some));
    for source in [Ipv6Addr::UNSPECIFIED, Ipv6Addr::LOCALHOST, Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1)] {
        row.addresses[..16].copy_from_slice(&source.octets());
        assert_eq!(all(&row.frame(), true), [None, None, None]);
    }
}

#[test]
fn multicast_and_broadcast_packets_are_not_answered() {
    let mut row = sample(false, 400);
    for target in [[255; 4], [224, 0, 0, 1]] {
        row.addresses[4..8].copy_from_slice(&target);
        assert_eq!(all(&row.frame(), false), [None, None, None]);
    }
    let mut row = sample(true, 400);
    row.addresses[16] = 0xff;
    assert_eq!(all(&row.frame(), true).map(|answer| answer.is_some()), [false, true, false]);
}

#[test]
fn later_fragments_are_not_answered() {
    let row = sample(false, 400);
    for (field, is_answered) in [([0x20, 0], true), ([0x20, 9], false), ([0, 9], false)] {
        let mut packet = row.segment(0);
        packet[6..8].copy_from_slice(&field);
        let frame = Offload::default().before(&packet);
        assert_eq!(all(&frame, false).map(|answer| answer.is_some()), [is_answered; 3]);
    }
    let row = sample(true, 400);
    for (field, is_answered) in [(1, true), (9, false), (8, false)] {
        let body = [&[17, 0, 0, field, 0, 0, 0, 1][..], &row.payload].concat();
        let frame = Offload::default().before(&row.ip(0, 44, &body));
        assert_eq!(all(&frame, true).map(|answer| answer.is_some()), [is_answered; 3]);
    }
}

#[test]
fn icmp_errors_are_not_answered() {
    for kind in 0..=255u8 {
        for v6 in [false, true] {
            let row = sample(v6, 400);
            let mut packet = echo(&row);
            let (at, _) = transport(&packet);
            packet[at] = kind;
            let is_error = if v6 { kind < 128 || kind == 137 } else { [3, 4, 5, 11, 12].contains(&kind) };
            let answers = all(&Offload::default().before(&packet), v6);
            assert_eq!(answers.map(|answer| answer.is_some()), [!is_error; 3], "{kind}");
        }
    }
}

#[test]
fn the_quoted_length_is_that_of_a_segment() {
    let frame = Row { mss: 1_448, ..sample(false, 30_000) }.frame();
    let shape = Shape::of(&frame).unwrap();
    let answer = too_big(&frame, &shape, router(false), 1_400).unwrap();
    assert_eq!(answer.len(), 10 + 576);
    assert_eq!(u32::from(get16(&answer, 10 + 28 + 2)), shape.largest());
}
