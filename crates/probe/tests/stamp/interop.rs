//! Tests against stamp-suite, another implementation (a crate).

use std::io::Read;
use std::time::{Duration, Instant};

use probe::Stop;
use probe::stamp::{Extent, HostClock, Order, Trust, run};

use super::peers::{Program, peer};
use super::relay::{PacketFate, RelayPlan, connected, loopback, reflector, relay};

/// stamp-suite with these arguments; none if it is not there.
fn stamp_suite(test: &str, arguments: &[&str]) -> Option<Program> {
    peer(test, "bin/stamp-suite", arguments)
}

fn free_port() -> u16 {
    loopback().local_addr().unwrap().port()
}

fn order(packets: u64) -> Order {
    let extent = Extent::Packets(packets);
    let timeout = Duration::from_millis(500);
    Order { rate_packets_s: 200.0, extent, timeout, ..Order::default() }
}

/// The reflector of stamp-suite, as soon as it answers.
fn stamp_suite_reflector(test: &str, more: &[&str]) -> Option<(Program, std::net::SocketAddr)> {
    let port = free_port();
    let number = port.to_string();
    let program = stamp_suite(test, &[&["-i", "-S", "127.0.0.1", "-o", &number], more].concat())?;
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], port));
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(10) {
        let answers = run(&connected(address), &order(1), &Stop::default(), &HostClock);
        if answers.is_ok_and(|found| found.packets.received == 1) {
            return Some((program, address));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("stamp-suite does not answer within 10 s");
}

#[test]
fn the_sender_works_with_a_stateful_reflector_of_stamp_suite() {
    let test = "the_sender_works_with_a_stateful_reflector_of_stamp_suite";
    let Some((_program, address)) = stamp_suite_reflector(test, &["--stateful-reflector"]) else { return };
    let forward = RelayPlan::of(&[(7, PacketFate::Lost), (8, PacketFate::Lost)]);
    let reverse = RelayPlan::of(&[(20, PacketFate::Lost)]);
    let path = relay(address, forward, reverse);
    let found = run(&connected(path.address), &order(60), &Stop::default(), &HostClock).unwrap();
    let packets = &found.packets;
    assert_eq!((packets.sent, packets.received, packets.ignored), (60, 57, 0), "{packets:?}");
    assert_eq!((packets.lost_forward, packets.lost_reverse, packets.stateful), (Some(2), Some(1), Some(true)));
    assert!(found.round_trip.unwrap().median_s < 0.1);
}

#[test]
fn the_sender_works_with_a_stateless_reflector_of_stamp_suite() {
    let test = "the_sender_works_with_a_stateless_reflector_of_stamp_suite";
    let Some((_program, address)) = stamp_suite_reflector(test, &[]) else { return };
    for packet_bytes in [44, 200] {
        let order = Order { packet_bytes, ..order(30) };
        let found = run(&connected(address), &order, &Stop::default(), &HostClock).unwrap();
        assert_eq!((found.packets.received, found.packets.ignored), (30, 0), "{:?}", found.packets);
    }
}

#[test]
fn the_reflector_works_with_a_sender_of_stamp_suite() {
    let far = reflector(Trust::Symmetric, HostClock);
    let to = far.address.port().to_string();
    let from = free_port().to_string();
    let arguments = [
        "-r",
        "127.0.0.1",
        "-p",
        &to,
        "-S",
        "127.0.0.1",
        "-o",
        &from,
        "-c",
        "30",
        "-d",
        "10",
        "-L",
        "1",
        "--ssid",
        "77",
    ];
    let Some(mut program) = stamp_suite("the_reflector_works_with_a_sender_of_stamp_suite", &arguments) else { return };
    let mut output = String::new();
    program.0.stdout.take().unwrap().read_to_string(&mut output).unwrap();
    assert!(program.0.wait().unwrap().success(), "{output}");
    assert!(output.contains("Packets received: 30"), "{output}");
    assert_eq!(far.end().answered, 30);
}
