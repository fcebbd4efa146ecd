//! UDP tests over loopback: both ends for real, exact counts.

// Tests may unwrap: clippy.toml permits it in test functions, but not in the functions that they call.
#![allow(clippy::unwrap_used)]

use std::net::UdpSocket;
use std::thread;
use std::time::{Duration, Instant};

use model::v1::probe::udp::{UdpOrder, UdpPace, UdpPoint, UdpReceived, UdpRequestOrder, UdpSent, UdpSweep};
use probe::udp::datagram::{Head, Kind, Token};
use probe::udp::sweep::{FarEnd, SweepRun, runs, sweep};
use probe::udp::{EndNotice, FlowId, HostClock, Plan, Receiver, RunProgress, paced, point, receive, request, send};
use probe::{Error, Stop};
use sys::namespace::Namespaces;

const FLOW: FlowId = FlowId { token: Token([9; 16]), run: 5 };
/// On one host no datagram is late.
const STRAGGLERS: Duration = Duration::from_millis(300);

fn pair(address: &str) -> (UdpSocket, UdpSocket) {
    let (a, b) = (UdpSocket::bind(address).unwrap(), UdpSocket::bind(address).unwrap());
    a.connect(b.local_addr().unwrap()).unwrap();
    b.connect(a.local_addr().unwrap()).unwrap();
    (a, b)
}

fn order(bytes: u32, pace: UdpPace, count: u64) -> UdpOrder {
    UdpOrder { bytes, pace, count: Some(count), seconds: None }
}

fn spaced(us: f64) -> UdpPace {
    UdpPace::Spacing { spacing_s: us / 1e6 }
}

/// One run with both ends; `on_ready` is called when the receiver is ready. The receiver learns the end without the path, as
/// over a control connection: under load the datagrams that carry it may be lost.
fn run_on(a: &UdpSocket, b: &UdpSocket, order: UdpOrder, on_ready: impl FnOnce()) -> UdpPoint {
    let ending = EndNotice::default();
    let watch = RunProgress::default();
    let stop = Stop::default();
    let receiver = Receiver::prepare(b, &order, FLOW).unwrap().with_stragglers(STRAGGLERS);
    on_ready();
    let (sent, received) = thread::scope(|scope| {
        let receiving = scope.spawn(|| receiver.run(&ending, &watch, &stop).unwrap());
        let sent = send(a, &order, FLOW, &RunProgress::default(), &stop).unwrap();
        ending.set(sent.datagrams);
        (sent, receiving.join().unwrap())
    });
    assert_eq!(watch.datagrams(), received.datagrams);
    point(order, sent, received)
}

fn run(order: UdpOrder) -> UdpPoint {
    let (a, b) = pair("127.0.0.1:0");
    run_on(&a, &b, order, || ())
}

fn assert_whole(point: &UdpPoint, count: u64) {
    let received = &point.received;
    assert_eq!((point.sent.datagrams, received.datagrams, point.lost), (count, count, 0), "{point:?}");
    assert_eq!((received.expected, received.ended.as_str()), (Some(count), "complete"));
    // Foreign datagrams are not counted: a late one of another test may arrive at a port that is used again.
    assert_eq!((received.duplicates, received.reordered), (0, 0));
    assert_eq!(received.bytes, count * u64::from(point.order.bytes));
    assert!(received.lost_runs.is_empty() && !received.bounded);
}

#[test]
fn spaced_datagrams_arrive_and_are_timed() {
    let point = run(order(200, spaced(20.0), 2_000));
    assert_whole(&point, 2_000);
    let spacing = point.sent.spacing.as_ref().unwrap();
    assert_eq!(spacing.count, 1_999);
    // The histogram is within 0.1 %.
    assert!(spacing.min_s >= 20e-6 * 0.999 && spacing.mean_s >= 20e-6, "{spacing:?}");
    assert!(point.sent.seconds >= 2_000.0 * 20e-6 && point.sent.rate_bit_s <= 80_000_000);
    let between = point.received.inter_arrival.as_ref().unwrap();
    assert_eq!((between.count, point.received.stamps.as_str()), (1_999, "kernel"));
    let one_way = point.received.one_way.as_ref().unwrap();
    assert_eq!((one_way.count, one_way.min_s), (2_000, 0.0));
    let json = serde_json::to_string(&point).unwrap();
    assert_eq!(serde_json::from_str::<UdpPoint>(&json).unwrap(), point);
}

#[test]
fn a_rate_is_a_spacing() {
    let point = run(order(1_250, UdpPace::Rate { rate_bit_s: 500_000_000 }, 1_000));
    assert_whole(&point, 1_000);
    assert_eq!(point.sent.spacing_target_s, Some(20e-6));
    assert!(point.sent.rate_bit_s <= 500_000_000, "{}", point.sent.rate_bit_s);
}

#[test]
fn bursts_arrive() {
    let point = run(order(500, UdpPace::Bursts { length: 10, spacing_s: 0.0, gap_s: 1e-3 }, 200));
    assert_whole(&point, 200);
    let gap = point.sent.gap.as_ref().unwrap();
    assert_eq!((gap.count, point.sent.spacing.as_ref().map(|spread| spread.count)), (19, Some(180)));
    assert!(gap.min_s >= 1e-3 * 0.999, "{gap:?}");
}

#[test]
fn trains_arrive_over_both_families() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let Ok(_) = UdpSocket::bind(address) else {
            skipped("trains_arrive_over_both_families", &format!("no {address} here"));
            continue;
        };
        let (a, b) = pair(address);
        for (bytes, count) in [(1_472, 4_999), (8_972, 1_000), (60_000, 50), (41, 3_000)] {
            let point = run_on(&a, &b, order(bytes, UdpPace::Max, count), || ());
            assert_whole(&point, count);
            let sent = point.sent.train_datagrams;
            assert_eq!(sent, (65_000 / bytes).clamp(1, 64), "loopback cuts trains");
            assert_eq!((point.sent.spacing_target_s, point.sent.spacing), (None, None));
            assert_eq!(point.received.inter_arrival, None);
            let whole_trains = sent == 1 || point.received.drops.train_datagrams > f64::from(sent) / 2.0;
            assert!(whole_trains, "loopback joins them: {:?}", point.received.drops);
        }
        // The same sockets after trains: neither cut nor joined.
        let point = run_on(&a, &b, order(100, spaced(10.0), 500), || ());
        assert_whole(&point, 500);
        assert_eq!((point.sent.train_datagrams, point.received.drops.in_trains), (1, false));
    }
}

#[test]
fn time_ends_both_kinds_of_run() {
    for pace in [spaced(100.0), UdpPace::Max] {
        let point = run(UdpOrder { bytes: 1_000, pace, count: None, seconds: Some(0.2) });
        assert!(point.sent.datagrams > 0 && (0.19..5.0).contains(&point.sent.seconds), "{:?}", point.sent);
        assert_eq!(point.received.expected, Some(point.sent.datagrams));
        assert_eq!(point.received.datagrams + point.received.lost, point.sent.datagrams);
        match pace {
            // An estimate, from the few trains that were seen.
            UdpPace::Max => assert!(point.lost_in_host >= point.lost.div_ceil(2), "{point:?}"),
            _ => assert_eq!(point.lost_in_network, 0, "loopback loses nothing: {point:?}"),
        }
    }
}

#[test]
fn datagrams_that_the_receiving_host_drops_are_lost_in_the_host() {
    for pace in [spaced(0.0), UdpPace::Max] {
        let (a, b) = pair("127.0.0.1:0");
        let order = UdpOrder { bytes: 1_000, pace, count: Some(20_000), seconds: None };
        let shrink = || assert!(sys::datagrams::set_receive_buffer(&b, 1).unwrap() < 10_000);
        let point = run_on(&a, &b, order, shrink);
        let received = &point.received;
        assert!(point.lost > 0, "the smallest buffer loses datagrams");
        assert_eq!(received.datagrams + point.lost, 20_000);
        assert_eq!((point.lost, received.lost), (point.lost_in_host + point.lost_in_network, point.lost));
        assert_eq!(received.lost_runs.iter().map(|run| run.1).sum::<u64>(), point.lost);
        assert!(point.host_limited.is_some());
        match pace {
            UdpPace::Max => assert!(point.lost_in_network_share < 0.05, "an estimate: {point:?}"),
            _ => assert_eq!(point.lost_in_network, 0, "{point:?}"),
        }
    }
}

#[test]
fn a_run_to_a_closed_port_counts_the_refusals() {
    let (a, b) = pair("127.0.0.1:0");
    drop(b);
    let sent = send(&a, &order(100, spaced(100.0), 100), FLOW, &RunProgress::default(), &Stop::default()).unwrap();
    assert_eq!(sent.datagrams, 100);
    assert!(sent.refused > 0, "{sent:?}");
}

#[test]
fn a_stop_ends_either_end() {
    let (a, b) = pair("127.0.0.1:0");
    let order = UdpOrder { bytes: 100, pace: spaced(1_000.0), count: None, seconds: Some(60.0) };
    let stop = Stop::default();
    let watch = RunProgress::default();
    let began = Instant::now();
    let (sent, received): (UdpSent, UdpReceived) = thread::scope(|scope| {
        let sending = scope.spawn(|| send(&a, &order, FLOW, &RunProgress::default(), &stop).unwrap());
        let taking = scope.spawn(|| receive(&b, &order, FLOW, &EndNotice::default(), &watch, &stop).unwrap());
        while watch.datagrams() == 0 && began.elapsed() < Duration::from_secs(20) {
            thread::sleep(Duration::from_millis(10));
        }
        stop.stop();
        (sending.join().unwrap(), taking.join().unwrap())
    });
    assert!(began.elapsed() < Duration::from_secs(40));
    assert!(sent.interrupted && received.ended == "interrupted");
    assert!(sent.datagrams >= received.datagrams && received.datagrams > 0);
}

/// The other end of a sweep on a thread of its own.
struct ThreadedFarEnd<'a> {
    socket: &'a UdpSocket,
    running: Option<thread::JoinHandle<UdpReceived>>,
}

impl FarEnd for ThreadedFarEnd<'_> {
    fn start(&mut self, run: &SweepRun) -> probe::Result<()> {
        let socket = self.socket.try_clone().unwrap();
        let run = *run;
        let (ready, is_ready) = std::sync::mpsc::channel();
        self.running = Some(thread::spawn(move || {
            let receiver = Receiver::prepare(&socket, &run.order, run.flow).unwrap();
            ready.send(()).unwrap();
            receiver.run(&EndNotice::default(), &RunProgress::default(), &Stop::default()).unwrap()
        }));
        is_ready.recv().unwrap();
        Ok(())
    }

    fn result(&mut self, _: u64) -> probe::Result<UdpReceived> {
        Ok(self.running.take().unwrap().join().unwrap())
    }
}

#[test]
fn a_sweep_over_one_pair_of_sockets_counts_every_run() {
    let (a, b) = pair("127.0.0.1:0");
    let spacings_s = vec![0.0, 10e-6];
    let plan = UdpSweep { sizes_bytes: vec![1_472, 50], spacings_s, count: Some(300), seconds: None };
    let all = runs(&plan, Token([3; 16]), 0).unwrap();
    let mut points = Vec::new();
    let mut far = ThreadedFarEnd { socket: &b, running: None };
    let watch = RunProgress::default();
    let stop = Stop::default();
    sweep(&a, &all, &mut far, &watch, &stop, |_, point| points.push(point.clone())).unwrap();
    assert_eq!(points.len(), 4);
    for (point, run) in points.iter().zip(&all) {
        assert_whole(point, 300);
        assert_eq!(point.order, run.order);
        let row = probe::udp::columns::row(point);
        assert!(row.starts_with(&format!(" {}; 300;", run.order.bytes)), "{row}");
    }
}

#[test]
fn stragglers_of_the_previous_run_are_not_counted() {
    let (a, b) = pair("127.0.0.1:0");
    let before = FlowId { run: FLOW.run - 1, ..FLOW };
    let mut straggler = [0; 100];
    for number in 0..10 {
        assert!(Head { flow: before, kind: Kind::Data, number, sent_ns: 0 }.write(&mut straggler));
        a.send(&straggler).unwrap();
    }
    let point = run_on(&a, &b, order(100, spaced(10.0), 50), || ());
    assert_eq!((point.received.datagrams, point.received.duplicates, point.received.foreign), (50, 0, 10));
}

#[test]
fn datagrams_from_before_the_socket_was_connected_are_not_counted() {
    let (a, b, stranger) = {
        let bind = || UdpSocket::bind("127.0.0.1:0").unwrap();
        (bind(), bind(), bind())
    };
    let mut forged = [0; 100];
    for number in 0..10 {
        assert!(Head { flow: FLOW, kind: Kind::Data, number, sent_ns: 0 }.write(&mut forged));
        stranger.send_to(&forged, b.local_addr().unwrap()).unwrap();
    }
    a.connect(b.local_addr().unwrap()).unwrap();
    b.connect(a.local_addr().unwrap()).unwrap();
    let point = run_on(&a, &b, order(100, spaced(10.0), 50), || ());
    assert_eq!((point.received.datagrams, point.received.duplicates, point.received.foreign), (50, 0, 10));
}

/// Runs `act` on a thread in a network namespace of its own, set up by lines of ip(8) and tc(8); skips the test where it cannot.
fn in_a_network_of_its_own(test: &'static str, lines: &'static [&'static str], act: impl FnOnce() + Send) {
    let inside = || {
        if let Err(why) = Namespaces::make() {
            return skipped(test, &format!("no network of its own: {why}"));
        }
        for line in lines {
            let mut words = line.split_whitespace();
            let run = std::process::Command::new(words.next().unwrap()).args(words).status();
            match run {
                Ok(status) if status.success() => {}
                other => return skipped(test, &format!("{line}: {other:?}")),
            }
        }
        act();
    };
    thread::scope(|scope| scope.spawn(inside).join().unwrap());
}

/// A loopback interface with a queue of four datagrams and a rate of 20 Mbit/s.
const SHORT_QUEUE: &[&str] = &["ip link set lo up", "tc qdisc add dev lo root tbf rate 20mbit burst 3000 limit 5000"];

#[test]
fn a_datagram_that_the_sending_host_has_no_room_for_is_sent_again() {
    in_a_network_of_its_own("a_datagram_that_the_sending_host_has_no_room_for_is_sent_again", SHORT_QUEUE, || {
        let point = run(order(1_000, spaced(0.0), 300));
        let received = &point.received;
        // The loopback's queue releases datagrams on different processors, whose receive queues are emptied in parallel: a later
        // datagram may overtake.
        let counted = (point.sent.datagrams, received.datagrams, point.lost, received.duplicates, received.foreign);
        assert_eq!(counted, (300, 300, 0, 0, 0), "{point:?}");
        assert!(point.sent.no_buffers > 0, "{:?}", point.sent);
        assert_eq!(point.sent.host_dropped, 0, "the kernel returned an error for each drop");
    });
}

#[test]
fn a_silent_drop_of_the_sending_host_is_not_the_networks() {
    in_a_network_of_its_own("a_silent_drop_of_the_sending_host_is_not_the_networks", SHORT_QUEUE, || {
        let (a, b) = pair("127.0.0.1:0");
        let order = order(1_000, spaced(0.0), 300);
        let ending = EndNotice::default();
        let stop = Stop::default();
        let watch = RunProgress::default();
        let receiver = Receiver::prepare(&b, &order, FLOW).unwrap().with_stragglers(STRAGGLERS);
        // This socket does not ask the kernel to return such errors.
        let plan = Plan::of(&order).unwrap();
        let mut clock = HostClock::default();
        let sent = paced(&plan, FLOW, "b", &mut clock, |datagram| a.send(datagram), &stop, &watch).unwrap();
        ending.set(sent.datagrams);
        let point = point(order, sent, receiver.run(&ending, &watch, &stop).unwrap());
        assert!(point.lost > 0 && point.sent.no_buffers == 0, "{point:?}");
        assert_eq!((point.sent.host_dropped, point.lost_in_network), (point.lost, 0));
        assert!(point.host_limited.is_some_and(|why| why.contains("sending host dropped")));
    });
}

#[test]
fn a_neighbour_that_does_not_answer_ends_no_run() {
    const LINES: &[&str] = &[
        // The loopback carries this host's own error reports.
        "ip link set lo up",
        "ip link add v0 type veth peer name v1",
        "ip address add 10.9.9.1/24 dev v0",
        "ip link set v0 up",
        "ip link set v1 up",
    ];
    in_a_network_of_its_own("a_neighbour_that_does_not_answer_ends_no_run", LINES, || {
        std::fs::write("/proc/sys/net/ipv4/neigh/v0/retrans_time_ms", "20").unwrap();
        let a = UdpSocket::bind("10.9.9.1:0").unwrap();
        a.connect("10.9.9.2:9").unwrap();
        let sent =
            send(&a, &order(100, spaced(5_000.0), 100), FLOW, &RunProgress::default(), &Stop::default()).unwrap();
        assert_eq!((sent.datagrams, sent.refused), (100, 0), "the datagrams count as sent");
        let pending = a.take_error().unwrap();
        assert!(pending.is_none(), "{pending:?}");
    });
}

#[test]
fn requests_are_answered_at_every_size() {
    let (a, b) = pair("127.0.0.1:0");
    let order = UdpRequestOrder { request_bytes: 64, answer_bytes: vec![64, 4_000, 8_973], count: 200, timeout_s: 2.0 };
    let stop = Stop::default();
    let (result, answered) = thread::scope(|scope| {
        let answering = scope.spawn(|| request::answer(&b, FLOW, 8_973, &RunProgress::default(), &stop).unwrap());
        let result = request::measure(&a, &order, FLOW, &stop).unwrap();
        (result, answering.join().unwrap())
    });
    assert_eq!((answered.answered, answered.too_large, answered.foreign), (600, 0, 0));
    for (size, bytes) in result.sizes.iter().zip(&order.answer_bytes) {
        assert_eq!((size.answer_bytes, size.asked, size.answered, size.late), (*bytes, 200, 200, 0));
        let trip = &size.round_trip;
        assert!(trip.min_s > 0.0 && trip.min_s <= trip.p50_s && trip.p50_s <= trip.p99_s && trip.p99_s <= trip.max_s);
    }
    assert!(result.line_of_min.is_some() && result.line_of_mean.is_some());
}

#[test]
fn answers_are_no_larger_than_allowed() {
    let (a, b) = pair("127.0.0.1:0");
    let order = UdpRequestOrder { request_bytes: 64, answer_bytes: vec![1_000], count: 50, timeout_s: 0.01 };
    let stop = Stop::default();
    let (error, answered) = thread::scope(|scope| {
        let answering = scope.spawn(|| request::answer(&b, FLOW, 999, &RunProgress::default(), &stop).unwrap());
        let error = request::measure(&a, &order, FLOW, &Stop::default()).unwrap_err();
        // The end follows all requests, so the answering end has read these first.
        let mut end = [0; 100];
        assert!(Head { flow: FLOW, kind: Kind::End, number: 10, sent_ns: 0 }.write(&mut end));
        a.send(&end).unwrap();
        (error, answering.join().unwrap())
    });
    assert!(matches!(error, Error::Silent { .. }), "{error}");
    assert_eq!((answered.answered, answered.too_large), (0, 10));
}

/// Reports that a test could not run here, directly on standard error: the harness hides the output of tests that pass.
fn skipped(test: &str, why: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {why}");
}
