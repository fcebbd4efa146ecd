//! Bottlenecks of paths and uplinks, under more load than they carry.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use lab::{Lab, fixture};
use sys::datagrams::{MESSAGES_MAX, ReceiveBuffers, stamp_arrivals};

use super::probe::{is_judged, not_judged, udp};

const DATAGRAM: usize = 1_472;
const PACKET_BITS: f64 = 1_500.0 * 8.0;

/// The arrival times of datagrams by the kernel, nanoseconds since 1970, until none arrives for 300 ms.
fn arrivals(socket: &UdpSocket) -> Vec<u64> {
    socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let mut buffers = ReceiveBuffers::new(MESSAGES_MAX, DATAGRAM);
    let mut arrived = Vec::new();
    while buffers.receive(socket).is_ok() {
        arrived.extend(buffers.messages().map(|message| message.stamp_ns.unwrap()));
    }
    arrived
}

/// The result of an offered load.
struct Offered {
    /// The times of arrival, for each socket.
    arrived: Vec<Vec<u64>>,
    /// The longest time in which nothing was sent.
    gap: Duration,
}

/// Sends `each_ms` datagrams every millisecond, to each socket in turn.
fn offered(from: &UdpSocket, to: &[UdpSocket], each_ms: u32, lasts: Duration) -> Offered {
    to.iter().for_each(|socket| stamp_arrivals(socket, true).unwrap());
    let send = || {
        let _ = sys::schedule::set_realtime();
        let started = Instant::now();
        let mut number = 0;
        let mut gap = Duration::ZERO;
        let mut last = started;
        while started.elapsed() < lasts {
            while number < started.elapsed().as_millis() as u32 * each_ms {
                let to = &to[number as usize % to.len()];
                from.send_to(&[0; DATAGRAM], to.local_addr().unwrap()).unwrap();
                number += 1;
                gap = gap.max(last.elapsed());
                last = Instant::now();
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        gap.max(last.elapsed())
    };
    std::thread::scope(|scope| {
        let receivers: Vec<_> = to.iter().map(|socket| scope.spawn(move || arrivals(socket))).collect();
        let gap = scope.spawn(send).join().unwrap();
        Offered { arrived: receivers.into_iter().map(|receiver| receiver.join().unwrap()).collect(), gap }
    })
}

/// Bits per second from the first to the last.
fn rate(arrived: &[u64]) -> f64 {
    let (first, last) = (arrived.first().unwrap(), arrived.last().unwrap());
    (arrived.len() - 1) as f64 * PACKET_BITS / ((last - first) as f64 / 1e9)
}

/// One of a few attempts must be within bounds: an attempt fails if the machine gives the processor to other programs at its end. An
/// attempt returns its rate and the longest time in which nothing was sent.
fn check_rate(
    test: &str,
    lab: &Lab,
    wanted: f64,
    bound: f64,
    gap_max: Duration,
    attempt: impl Fn() -> (f64, Duration),
) {
    let mut found = Vec::new();
    for _ in 0..4 {
        let idle = |lab: &Lab| lab.reading().unwrap().links.iter().map(|link| link.counts.idle_ns).max();
        let before = idle(lab);
        let (rate, gap) = attempt();
        if !is_judged(test, lab) {
            return;
        }
        if (rate / wanted - 1.0).abs() < bound {
            return;
        }
        let busy = idle(lab).unwrap() - before.unwrap() < 1_000_000 && gap < gap_max;
        found.push((rate, busy));
    }
    if found.iter().all(|(_, busy)| !busy) {
        not_judged(test, "the sender could not keep up");
        return;
    }
    panic!("{test}: not {wanted} bit/s: {found:?}");
}

#[test]
fn a_bottleneck_sends_at_its_rate() {
    let test = "a_bottleneck_sends_at_its_rate";
    let text =
        "[site.a]\nmtu = 1500\n[site.b]\nmtu = 1500\n[path.a-b]\nrtt = \"20ms\"\nrate = \"200Mbit/s\"\nqueue = \"1MB\"";
    let Some(lab) = fixture::up(test, text) else { return };
    let (near, far) = (udp(&lab, "a"), [udp(&lab, "b")]);
    check_rate(test, &lab, 200e6, 0.01, Duration::MAX, || one_second(&near, &far, 25));
    let counts = super::probe::counts(&lab, "a-b", 0);
    assert!(counts.queue_dropped > 0 && counts.queue_peak <= 1_000_000, "{counts:?}");
    lab.set("a-b", &[("rate", "50Mbit/s")]).unwrap();
    check_rate(test, &lab, 50e6, 0.01, Duration::MAX, || one_second(&near, &far, 8));
}

/// The rate at the one receiver under a load of one second.
fn one_second(near: &UdpSocket, far: &[UdpSocket; 1], each_ms: u32) -> (f64, Duration) {
    let Offered { arrived, gap } = offered(near, far, each_ms, Duration::from_secs(1));
    (rate(&arrived[0]), gap)
}

/// Two paths of one site share the rate of its uplink.
#[test]
fn an_uplink_is_shared_by_the_paths_of_its_site() {
    let test = "an_uplink_is_shared_by_the_paths_of_its_site";
    let text = "[site.a]\nmtu = 1500\nuplink = { rate = \"100Mbit/s\", queue = \"500KB\" }\n[site.b]\n[site.c]\n\
                [path.a-b]\nrtt = \"10ms\"\n[path.a-c]\nrtt = \"20ms\"";
    let Some(lab) = fixture::up(test, text) else { return };
    let (near, far) = (udp(&lab, "a"), [udp(&lab, "b"), udp(&lab, "c")]);
    check_rate(test, &lab, 100e6, 0.02, Duration::MAX, || {
        let Offered { arrived, gap } = offered(&near, &far, 14, Duration::from_secs(1));
        assert!(arrived.iter().all(|one| one.len() > 1_500), "both get something");
        // Datagrams that arrive at c are 5 ms older.
        (rate(&arrived[0]) + rate(&arrived[1]), gap)
    });
}

#[test]
fn a_policer_lets_its_rate_through_without_a_queue() {
    let test = "a_policer_lets_its_rate_through_without_a_queue";
    let text = "[site.a]\nmtu = 1500\n[site.b]\nmtu = 1500\n[path.a-b]\nrtt = \"20ms\"\n\
                policer = { rate = \"40Mbit/s\", burst = \"30KB\" }";
    let Some(lab) = fixture::up(test, text) else { return };
    let (near, far) = (udp(&lab, "a"), [udp(&lab, "b")]);
    // The burst of 30 KB is the volume of 6 ms: it does not make up for a longer pause.
    check_rate(test, &lab, 40e6, 0.02, Duration::from_millis(6), || one_second(&near, &far, 8));
    let reading = lab.reading().unwrap();
    let link = &reading.links[lab.link("a-b", 0).unwrap()];
    assert!(link.counts.policed > 0 && link.backlog == 0);
}
