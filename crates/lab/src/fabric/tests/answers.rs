//! The network's answers to packets that it does not carry on.

use super::*;
use crate::topology::{gateway_addresses, router_addresses};

/// Type, code and source of an ICMP message, over either IP.
fn message(arrival: &Arrival) -> (u8, u8, IpAddr) {
    let ip = arrival.ip();
    match ip[0] >> 4 {
        4 => {
            assert_eq!(ip[9], 1);
            (ip[20], ip[21], <[u8; 4]>::try_from(&ip[12..16]).unwrap().into())
        }
        _ => {
            assert_eq!(ip[6], 58);
            (ip[40], ip[41], <[u8; 16]>::try_from(&ip[8..24]).unwrap().into())
        }
    }
}

const HOPS: &str = "[site.a]\nuplink = { delay = \"3ms\" }\n[site.b]\n[path.a-b]\nrtt = \"80ms\"\nhops = 3";

/// An answer takes the delay from the sender to the router, twice.
#[test]
fn each_router_answers_when_the_ttl_ends() {
    let mut net = Net::of(HOPS);
    for hop in 1..=3u8 {
        let (v4, v6) = router_addresses(0, hop);
        let four = Packet { ttl: hop, ..net.udp("a", "b", 100) };
        let six = Packet { from: net.v6("a"), to: net.v6("b"), ..four };
        for (packet, router, kind) in [(four, IpAddr::from(v4), 11), (six, v6.into(), 3)] {
            net.put(MS, &packet);
            let arrivals = net.all();
            assert_eq!(arrivals.len(), 1);
            assert_eq!(message(&arrivals[0]), (kind, 0, router));
            assert_eq!(arrivals[0].port, net.port("a"));
            assert_eq!(arrivals[0].due, MS + 2 * (3 * MS + 10 * MS * u64::from(hop)), "hop {hop}");
        }
    }
    assert_eq!(net.fabric.refused().expired, 6);
    assert_eq!(net.path("a-b", 0, 0).packets, 0);
    let packet = Packet { ttl: 4, ..net.udp("a", "b", 100) };
    net.put(0, &packet);
    let arrivals = net.all();
    assert_eq!((arrivals[0].port, arrivals[0].ip()[8]), (net.port("b"), 1), "the last one arrives");
}

#[test]
fn routers_have_one_name_from_both_ends() {
    let mut net = Net::of(HOPS);
    let packet = Packet { ttl: 1, ..net.udp("b", "a", 100) };
    net.put(0, &packet);
    let arrivals = net.all();
    assert_eq!(message(&arrivals[0]), (11, 0, router_addresses(0, 3).0.into()));
    assert_eq!(arrivals[0].due, 2 * 10 * MS, "near b, and before a's uplink");
}

#[test]
fn ttls_end_on_the_right_path_of_a_chain() {
    let mut net = Net::of(
        "[site.a]\n[site.m]\n[site.b]\n[path.a-m]\nrtt = \"20ms\"\nhops = 1\n[path.b-m]\nrtt = \"60ms\"\nhops = 2",
    );
    let found: Vec<_> = (0..=3)
        .map(|ttl| {
            let packet = Packet { ttl, ..net.udp("a", "b", 100) };
            net.put(0, &packet);
            let arrival = net.all().remove(0);
            let (_, _, router) = message(&arrival);
            (router, arrival.due / MS)
        })
        .collect();
    let router = |path, hop| IpAddr::from(router_addresses(path, hop).0);
    let wanted = [(router(0, 1), 10), (router(0, 1), 10), (router(1, 2), 40), (router(1, 1), 60)];
    assert_eq!(found, wanted, "a packet whose TTL is 0 ends at the first router too");
}

#[test]
fn no_router_answers_over_a_path_that_is_down() {
    let mut net = Net::of("[site.a]\n[site.b]\n[path.a-b]\nrtt = \"80ms\"\nhops = 3\ndown = true");
    let packet = Packet { ttl: 2, ..net.udp("a", "b", 100) };
    net.put(0, &packet);
    assert_eq!(net.all(), []);
}

#[test]
fn a_packet_without_a_route_is_answered_as_unreachable() {
    let mut net =
        Net::of("[site.a]\n[site.b]\n[site.c]\n[site.d]\n[path.a-b]\nrtt = \"80ms\"\n[path.c-d]\nrtt = \"8ms\"");
    let no_such_host = Packet { to: "10.9.9.9".parse().unwrap(), ..net.udp("a", "b", 100) };
    let cut_off = net.udp("a", "c", 100);
    let (gateway4, gateway6) = gateway_addresses(0);
    let no_such_host6 = Packet { from: net.v6("a"), to: "fd00:9::9".parse().unwrap(), ..no_such_host };
    for (packet, wanted) in [
        (no_such_host, (3, 0, gateway4.into())),
        (cut_off, (3, 0, gateway4.into())),
        (no_such_host6, (1, 0, IpAddr::from(gateway6))),
    ] {
        net.put(7 * MS, &packet);
        let arrivals = net.all();
        assert_eq!(message(&arrivals[0]), wanted);
        assert_eq!((arrivals[0].due, arrivals[0].port), (7 * MS, net.port("a")), "at once");
    }
    assert_eq!(net.fabric.refused().unroutable, 3);
}

#[test]
fn a_packet_above_the_mtu_is_answered_with_the_mtu() {
    let mut net = Net::of("[site.a]\n[site.b]\n[path.a-b]\nrtt = \"80ms\"\nmtu = 1400");
    let fits = Packet { mss: 1_372, ..net.udp("a", "b", 20 * 1_372) };
    net.put(0, &fits);
    assert_eq!(net.all().len(), 1, "1,400 bytes each");
    let exceeds = Packet { mss: 1_373, ..net.udp("a", "b", 20 * 1_373) };
    net.put(0, &exceeds);
    let arrivals = net.all();
    assert_eq!(message(&arrivals[0]), (3, 4, gateway_addresses(0).0.into()));
    assert_eq!((&arrivals[0].ip()[26..28], arrivals[0].due), (&1_400u16.to_be_bytes()[..], 0));
    let exceeds = Packet { from: net.v6("a"), to: net.v6("b"), ..net.udp("a", "b", 1_353) };
    net.put(0, &exceeds);
    let arrivals = net.all();
    assert_eq!(message(&arrivals[0]), (2, 0, gateway_addresses(0).1.into()));
    assert_eq!(&arrivals[0].ip()[44..48], &1_400u32.to_be_bytes());
    assert_eq!(net.fabric.refused().too_big, 2);
    assert_eq!(net.path("a-b", 0, 0).packets, 1);
}

/// The interface at the far end may take less than the path.
#[test]
fn the_far_interface_bounds_the_mtu() {
    let mut net = Net::of("[site.a]\n[site.b]\nmtu = 1280\n[path.a-b]\nrtt = \"80ms\"");
    let packet = net.udp("a", "b", 1_253);
    net.put(0, &packet);
    assert_eq!(message(&net.all()[0]).0, 3);
    let packet = net.udp("a", "b", 1_252);
    net.put(0, &packet);
    assert_eq!(net.all()[0].port, net.port("b"));
}

#[test]
fn multicast_and_link_local_packets_are_not_carried() {
    let mut net = Net::of("[site.a]\n[site.b]\n[path.a-b]\nrtt = \"80ms\"");
    for to in ["224.0.0.1", "255.255.255.255", "169.254.1.1", "0.0.0.0"] {
        let packet = Packet { to: to.parse().unwrap(), ..net.udp("a", "b", 100) };
        net.put(0, &packet);
    }
    for to in ["ff02::2", "fe80::1", "::"] {
        let packet = Packet { from: net.v6("a"), to: to.parse().unwrap(), ..net.udp("a", "b", 100) };
        net.put(0, &packet);
    }
    net.put_at(0, 0, &[0; 30]);
    net.put_at(0, 0, &[]);
    assert_eq!(net.all(), [], "and no message is sent");
    assert_eq!(net.fabric.refused().not_carried, 9);
}
