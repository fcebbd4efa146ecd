//! UDP tests through a relay that loses, copies and delays known numbers: the receiver finds exactly these.

// Tests may unwrap: clippy.toml permits it in test functions, but not in the functions that they call.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use model::v1::probe::udp::{UdpBin, UdpOrder, UdpPace, UdpPoint};
use probe::Stop;
use probe::udp::datagram::{Head, Kind, Token};
use probe::udp::{EndNotice, FlowId, Receiver, RunProgress, point, send};
use sys::datagrams::set_receive_buffer;

const FLOW: FlowId = FlowId { token: Token([4; 16]), run: 1 };

/// The faults of the relay, by the datagrams' numbers.
#[derive(Default)]
struct RelayFaults {
    lost: BTreeSet<u64>,
    twice: BTreeSet<u64>,
    /// Each of these is forwarded only after the other number.
    after: BTreeMap<u64, u64>,
    ends_lost: bool,
}

/// Forwards datagrams from `from` to `to` until `over` is set.
fn relay(from: &UdpSocket, to: &UdpSocket, faults: &RelayFaults, over: &AtomicBool) {
    from.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let mut delayed: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    let mut datagram = [0; 2_000];
    while !over.load(Ordering::Acquire) {
        let Ok(bytes) = from.recv(&mut datagram) else { continue };
        let datagram = &datagram[..bytes];
        let head = Head::read(datagram).expect("every datagram has a head");
        if head.kind == Kind::End {
            if !faults.ends_lost {
                to.send(datagram).unwrap();
            }
            continue;
        }
        if faults.lost.contains(&head.number) {
            continue;
        }
        if let Some(after) = faults.after.get(&head.number) {
            delayed.insert(*after, datagram.to_vec());
            continue;
        }
        to.send(datagram).unwrap();
        if faults.twice.contains(&head.number) {
            to.send(datagram).unwrap();
        }
        if let Some(late) = delayed.remove(&head.number) {
            to.send(&late).unwrap();
        }
    }
}

/// One run of `count` through the relay.
fn run(count: u64, faults: &RelayFaults) -> UdpPoint {
    let [a, near, far, b] = [(); 4].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    for (one, other) in [(&a, &near), (&near, &a), (&far, &b), (&b, &far)] {
        one.connect(other.local_addr().unwrap()).unwrap();
    }
    set_receive_buffer(&near, 4 << 20).unwrap();
    let order = UdpOrder { bytes: 100, pace: UdpPace::Spacing { spacing_s: 20e-6 }, count: Some(count), seconds: None };
    let ending = EndNotice::default();
    let watch = RunProgress::default();
    let stop = Stop::default();
    let over = AtomicBool::new(false);
    let receiver = Receiver::prepare(&b, &order, FLOW).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| relay(&near, &far, faults, &over));
        let receiving = scope.spawn(|| receiver.run(&ending, &watch, &stop).unwrap());
        let sent = send(&a, &order, FLOW, &RunProgress::default(), &stop).unwrap();
        if faults.ends_lost {
            ending.set(sent.datagrams);
        }
        let received = receiving.join().unwrap();
        over.store(true, Ordering::Release);
        point(order, sent, received)
    })
}

#[test]
fn every_injected_fault_is_found_and_no_other() {
    let lost: BTreeSet<u64> = [0, 10, 11, 12, 500].into_iter().chain(1_000..1_020).chain([1_998, 1_999]).collect();
    let twice = BTreeSet::from([5, 13, 700, 1_997]);
    let after = BTreeMap::from([(100, 101), (200, 203), (300, 310)]);
    let point = run(2_000, &RelayFaults { lost: lost.clone(), twice, after, ends_lost: false });
    let received = &point.received;
    assert_eq!((point.sent.datagrams, received.datagrams, point.lost), (2_000, 2_000 - 27, 27));
    assert_eq!(received.lost_runs, [(0, 1), (10, 3), (500, 1), (1_000, 20), (1_998, 2)]);
    let bin = |length, count| UdpBin { from: length, to: length, count };
    assert_eq!(received.lost_run_lengths, [bin(1, 2), bin(2, 1), bin(3, 1), bin(20, 1)]);
    assert_eq!((received.duplicates, received.reordered), (4, 3));
    assert_eq!(received.reorder_distances, [bin(1, 1), bin(3, 1), bin(10, 1)]);
    assert_eq!((point.lost_in_host, point.lost_in_network, point.lost_in_host_exact), (0, 27, true));
    assert_eq!((received.ended.as_str(), received.foreign, received.unjudged), ("told", 0, 0));
    assert!((point.lost_share - 27.0 / 2_000.0).abs() < 1e-12);
}

#[test]
fn a_receiver_that_misses_the_end_takes_it_from_the_notice() {
    let faults = RelayFaults { lost: (90..100).collect(), ends_lost: true, ..RelayFaults::default() };
    let point = run(100, &faults);
    assert_eq!(point.received.expected, Some(100));
    assert_eq!(point.received.lost_runs, [(90, 10)]);
}

#[test]
fn a_clean_relay_loses_nothing() {
    let point = run(1_000, &RelayFaults::default());
    assert_eq!((point.lost, point.received.duplicates, point.received.reordered), (0, 0, 0));
    assert_eq!((point.received.ended.as_str(), point.received.datagrams), ("complete", 1_000));
}
