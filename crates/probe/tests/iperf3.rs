//! Client and server of iperf3's protocol against each other, and each against peers that break the protocol.

#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use model::v1::probe::tcp::{Directions, Order};
use probe::iperf3::{Bounds, DatagramOrder, Server, TestRecord, test, test_datagrams};
use probe::{Error, Result, Stop};
use socket2::{Domain, Protocol, Socket, Type};

/// A server with its listeners; they end when it is dropped.
struct Node {
    at: SocketAddr,
    stop: Stop,
    /// The outcome of each connection.
    outcomes: Receiver<Result<Option<TestRecord>>>,
}

impl Drop for Node {
    fn drop(&mut self) {
        self.stop.stop();
        let _ = TcpStream::connect(self.at);
    }
}

/// A listener, and a socket for datagrams on the same port.
fn port() -> (TcpListener, UdpSocket) {
    loop {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP)).unwrap();
        socket.set_reuse_port(true).unwrap();
        if socket.bind(&listener.local_addr().unwrap().into()).is_ok() {
            return (listener, socket.into());
        }
    }
}

fn node(bounds: Bounds) -> Node {
    node_reporting_to(bounds, |_, _| true)
}

/// A node that reports the bytes of its tests to `moved`.
fn node_reporting_to(bounds: Bounds, moved: impl Fn(IpAddr, u64) -> bool + Send + Sync + 'static) -> Node {
    let moved = Arc::new(moved);
    let (listener, datagrams) = port();
    let at = listener.local_addr().unwrap();
    let stop = Stop::default();
    let server = Arc::new(Server::new(bounds));
    let (sender, outcomes) = channel();
    let datagram_server = Arc::clone(&server);
    let datagram_stop = stop.clone();
    std::thread::spawn(move || {
        datagrams.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let mut datagram = [0; 2048];
        while !datagram_stop.is_stopped() {
            if let Ok((length, from)) = datagrams.recv_from(&mut datagram) {
                datagram_server.datagram(from, &datagram[..length]);
            }
        }
    });
    let listener_stop = stop.clone();
    std::thread::spawn(move || {
        for accepted in 0.. {
            let Ok((socket, _)) = listener.accept() else { return };
            if listener_stop.is_stopped() {
                return;
            }
            let server = Arc::clone(&server);
            let sender = sender.clone();
            let stop = listener_stop.clone();
            let moved = Arc::clone(&moved);
            std::thread::spawn(move || {
                let _ = sender.send(server.serve(socket, accepted, &stop, &*moved));
            });
        }
    });
    Node { at, stop, outcomes }
}

impl Node {
    /// The outcome of the next test. Streams that were handed over to a test are skipped.
    fn outcome(&self) -> Result<TestRecord> {
        loop {
            match self.outcomes.recv_timeout(Duration::from_secs(60)).expect("every connection ends") {
                Ok(None) => {}
                Ok(Some(done)) => return Ok(done),
                Err(error) => return Err(error),
            }
        }
    }
}

fn order(direction: Directions, streams: u32) -> Order {
    Order { direction, streams, seconds: 0.3, interval_s: 0.1, ..Order::default() }
}

#[test]
fn client_and_server_agree_on_the_bytes_in_every_direction() {
    let node = node(Bounds::default());
    for (direction, streams) in [(Directions::Forward, 1), (Directions::Reverse, 3), (Directions::Both, 2)] {
        let mut lines = 0;
        let report = test(node.at, &order(direction, streams), &Stop::default(), &mut |_| lines += 1).unwrap();
        let done = node.outcome().unwrap();
        assert!(lines >= 1, "{direction:?}");
        for direction in &report.directions {
            assert!(direction.rate_bit_s > 0 && direction.received_bytes > 0, "{direction:?}");
        }
        // The client reports the far end's own counts.
        let far: u64 = report.far.totals.iter().map(|total| total.flow.bytes).sum();
        assert_eq!(far, done.results.streams.iter().map(|stream| stream.bytes).sum::<u64>(), "{direction:?}");
        let ids: Vec<u32> = report.near.totals.iter().map(|total| total.flow.stream).collect();
        let expected: &[u32] = match direction {
            Directions::Forward => &[1],
            Directions::Reverse => &[1, 3, 4],
            Directions::Both => &[1, 3, 4, 5],
        };
        assert_eq!(ids, expected);
    }
}

#[test]
fn a_test_ends_after_its_bytes() {
    let node = node(Bounds::default());
    let order = Order { bytes: 5_000_000, seconds: 0.0, block_bytes: 10_000, ..Order::default() };
    let report = test(node.at, &order, &Stop::default(), &mut |_| {}).unwrap();
    assert_eq!((report.directions[0].sent_bytes, report.directions[0].received_bytes), (5_000_000, 5_000_000));
}

#[test]
fn datagrams_are_counted_in_every_direction() {
    let node = node(Bounds::default());
    for direction in [Directions::Forward, Directions::Reverse, Directions::Both] {
        let order = DatagramOrder { streams: 2, direction, seconds: 0.3, bytes: 1_000, rate_bit_s: 4_000_000 };
        let found = test_datagrams(node.at, &order, &Stop::default()).unwrap();
        let done = node.outcome().unwrap();
        assert_eq!(found.far, done.results.streams, "{direction:?}");
        for (sends, near) in &found.near {
            let far = found.far.iter().find(|far| far.id == near.id).unwrap();
            let (sent, received) = if *sends { (near, far) } else { (far, near) };
            // 500 a second each, fewer if the sender has to wait for a processor. Loopback loses none; the last may be in flight.
            let most = sent.span_s.1 * 500.0 + 30.0;
            assert!(sent.packets > 20 && sent.packets as f64 <= most, "{direction:?}: {sent:?}");
            assert!(received.packets > 20 && received.packets <= sent.packets, "{direction:?}: {sent:?}, {received:?}");
            assert_eq!((received.lost, received.bytes), (0, received.packets * 1_000), "{direction:?}: {received:?}");
        }
    }
}

#[test]
fn twenty_tests_run_at_once_and_bounds_are_kept() {
    let node = node(Bounds { tests_per_address_max: 20, ..Bounds::default() });
    let run = || {
        let order = Order { pace_bit_s: 8_000_000, ..order(Directions::Forward, 1) };
        test(node.at, &order, &Stop::default(), &mut |_| {})
    };
    std::thread::scope(|scope| {
        let tests: Vec<_> = (0..20).map(|_| scope.spawn(run)).collect();
        for test in tests {
            let report = test.join().unwrap().unwrap();
            assert!(report.directions[0].received_bytes > 0, "{:?}", report.directions);
        }
    });
    let few = self::node(Bounds { tests_max: 0, ..Bounds::default() });
    let refused = test(few.at, &order(Directions::Forward, 1), &Stop::default(), &mut |_| {}).unwrap_err();
    assert!(matches!(&refused, Error::Refused { why, .. } if why.contains("busy")), "{refused}");
    let short = self::node(Bounds { seconds_max: 5, ..Bounds::default() });
    let long = Order { seconds: 60.0, ..Order::default() };
    let refused = test(short.at, &long, &Stop::default(), &mut |_| {}).unwrap_err();
    assert!(matches!(refused, Error::Refused { .. }), "{refused}");
    assert!(short.outcome().unwrap_err().to_string().contains("5 at most"));
}

const COOKIE: &[u8; 37] = b"abcdefghijklmnopqrstuvwxyz2345672222\0";
const PARAMS: &[u8] = br#"{"tcp":true,"omit":0,"time":1,"num":0,"blockcount":0,"parallel":1,"len":1000}"#;

fn text(json: &[u8]) -> Vec<u8> {
    [&(json.len() as u32).to_be_bytes()[..], json].concat()
}

/// The next states on the control connection.
fn read_states<const N: usize>(control: &mut TcpStream) -> [u8; N] {
    let mut states = [0; N];
    control.read_exact(&mut states).unwrap();
    states
}

/// A client's control connection, up to the state in which the server waits for streams.
fn begin(at: SocketAddr, params: &[u8]) -> TcpStream {
    let mut control = TcpStream::connect(at).unwrap();
    control.write_all(COOKIE).unwrap();
    assert_eq!(read_states(&mut control), [9]);
    control.write_all(&text(params)).unwrap();
    assert_eq!(read_states(&mut control), [10]);
    control
}

/// A running test with one stream over TCP.
fn begin_stream(at: SocketAddr, params: &[u8]) -> (TcpStream, TcpStream) {
    let mut control = begin(at, params);
    let mut stream = TcpStream::connect(at).unwrap();
    stream.write_all(COOKIE).unwrap();
    assert_eq!(read_states(&mut control), [1, 2]);
    (control, stream)
}

/// A running test with one stream over UDP.
fn begin_datagrams(at: SocketAddr, params: &[u8]) -> (TcpStream, UdpSocket) {
    let mut control = begin(at, params);
    let stream = UdpSocket::bind("127.0.0.1:0").unwrap();
    stream.connect(at).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    stream.send(b"9876").unwrap();
    let mut answer = [0; 2_000];
    assert_eq!(stream.recv(&mut answer).unwrap(), 4);
    assert_eq!(&answer[..4], b"6789");
    assert_eq!(read_states(&mut control), [1, 2]);
    (control, stream)
}

/// Whatever a client sends or omits, its test ends with an error, soon, and the node continues.
#[test]
fn clients_that_break_the_protocol_fail_their_test_only() {
    let node = node(Bounds::default());
    let valid = text(PARAMS);
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("half a cookie", COOKIE[..20].to_vec()),
        ("nothing after the cookie", COOKIE.to_vec()),
        ("a length of 0", [&COOKIE[..], &[0; 4]].concat()),
        ("a length of 4 GiB", [&COOKIE[..], &[0xff; 4]].concat()),
        ("half a text", [&COOKIE[..], &valid[..20]].concat()),
        ("not JSON", [&COOKIE[..], &text(b"{{{{")].concat()),
        ("a list", [&COOKIE[..], &text(b"[1,2]")].concat()),
        ("wrong types", [&COOKIE[..], &text(br#"{"tcp":"yes","parallel":"many"}"#)].concat()),
        ("too many streams", [&COOKIE[..], &text(br#"{"tcp":true,"parallel":9223372036854775807}"#)].concat()),
        ("no streams", [&COOKIE[..], &valid].concat()),
        ("an end before the beginning", [&COOKIE[..], &valid, &[4]].concat()),
    ];
    for (what, bytes) in cases {
        let from = Instant::now();
        let mut socket = TcpStream::connect(node.at).unwrap();
        socket.write_all(&bytes).unwrap();
        drop(socket);
        let error = node.outcome().expect_err(what);
        assert!(from.elapsed() < Duration::from_secs(60), "{what}: {error}");
    }
    test(node.at, &order(Directions::Forward, 1), &Stop::default(), &mut |_| {}).expect("the node continues");
}

#[test]
fn tests_of_vanished_clients_and_unknown_cookies_end() {
    let node = node(Bounds::default());
    let (control, mut stream) = begin_stream(node.at, PARAMS);
    stream.write_all(&[7; 5_000]).unwrap();
    drop((control, stream));
    assert!(matches!(node.outcome(), Err(Error::Broken { .. })));

    // Its cookie names no test, so it counts as a new test, which ends here.
    let mut stranger = TcpStream::connect(node.at).unwrap();
    stranger.write_all(b"zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz\0").unwrap();
    drop(stranger);
    assert!(node.outcome().is_err());
    // Datagrams from an address without a test are not answered.
    let datagram = UdpSocket::bind("127.0.0.1:0").unwrap();
    datagram.connect(node.at).unwrap();
    datagram.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    datagram.send(b"9876").unwrap();
    assert!(datagram.recv(&mut [0; 64]).is_err());
}

/// A server that reads `reads` bytes, sends `answer`, and then closes or waits.
fn scripted(answer: Vec<u8>, reads: usize, closes: bool) -> (SocketAddr, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let thread = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let _ = socket.read_exact(&mut vec![0; reads]);
        let _ = socket.write_all(&answer);
        if !closes {
            // Until the client closes.
            let _ = socket.read_to_end(&mut Vec::new());
        }
    });
    (at, thread)
}

#[test]
fn servers_that_break_the_protocol_are_errors() {
    let run = |at| test(at, &order(Directions::Forward, 1), &Stop::default(), &mut |_| {}).unwrap_err();
    let error = |answer: &[u8]| {
        let (at, thread) = scripted(answer.to_vec(), 37, true);
        let error = run(at);
        thread.join().unwrap();
        error
    };
    assert!(error(&[0xff]).to_string().contains("busy"), "access denied");
    assert!(error(&[]).to_string().contains("busy"), "closes without an answer");
    assert!(matches!(error(&[77]), Error::Protocol { .. }));
    assert!(matches!(error(&[2]), Error::Protocol { .. }), "running before anything was agreed");
    let refused = error(&[&[0xfe][..], &114i32.to_be_bytes(), &0i32.to_be_bytes()].concat());
    assert!(matches!(&refused, Error::Refused { why, .. } if why.contains("114")), "{refused}");
    assert!(matches!(error(&[0xfe, 0, 0]), Error::Broken { .. } | Error::Refused { .. }), "half an error");
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert!(matches!(run(closed), Error::Connect { .. }));
}

#[test]
fn a_stop_interrupts_the_client_in_every_state() {
    for answer in [vec![], vec![9], vec![9, 10]] {
        let (at, thread) = scripted(answer, 37, false);
        let stop = Stop::default();
        let from = Instant::now();
        let error = std::thread::scope(|scope| {
            let run = scope.spawn(|| test(at, &order(Directions::Forward, 1), &stop, &mut |_| {}));
            std::thread::sleep(Duration::from_millis(300));
            stop.stop();
            run.join().unwrap().unwrap_err()
        });
        assert!(matches!(error, Error::Interrupted), "{error}");
        assert!(from.elapsed() < Duration::from_secs(60));
        thread.join().unwrap();
    }
}

const REVERSE_UDP: &[u8] =
    br#"{"udp":true,"time":60,"parallel":1,"len":1000,"bandwidth":800000,"reverse":true,"udp_counters_64bit":1}"#;

/// The sender stops, and its place among the tests is free.
#[test]
fn a_sender_whose_client_has_vanished_stops() {
    let reported = Arc::new(AtomicU64::new(0));
    let sum = Arc::clone(&reported);
    let bounds = Bounds { tests_per_address_max: 1, ..Bounds::default() };
    let node = node_reporting_to(bounds, move |_, more| {
        sum.fetch_add(more, Ordering::Relaxed);
        true
    });
    let (control, stream) = begin_datagrams(node.at, REVERSE_UDP);
    for _ in 0..20 {
        assert_eq!(stream.recv(&mut [0; 2_000]).unwrap(), 1_000);
    }
    drop(control);
    assert!(matches!(node.outcome(), Err(Error::Broken { .. })));
    stream.set_nonblocking(true).unwrap();
    let mut received = 20;
    while stream.recv(&mut [0; 2_000]).is_ok() {
        received += 1;
    }
    std::thread::sleep(Duration::from_millis(300));
    assert!(stream.recv(&mut [0; 2_000]).is_err(), "it goes on sending");
    // The bytes of a test are reported even if it fails.
    assert_eq!(reported.load(Ordering::Relaxed), received * 1_000);
    test(node.at, &order(Directions::Forward, 1), &Stop::default(), &mut |_| {}).expect("the place is free");
    assert!(node.outcome().is_ok());
    let (control, mut stream) = begin_stream(node.at, br#"{"tcp":true,"time":60,"len":1000,"reverse":true}"#);
    drop(control);
    assert!(matches!(node.outcome(), Err(Error::Broken { .. })));
    // The bytes in flight, and then the end.
    let ended = std::io::copy(&mut stream, &mut std::io::sink());
    assert!(ended.is_ok(), "{ended:?}");
}

/// Hello datagrams do not name their test.
#[test]
fn concurrent_tests_with_datagrams_from_one_address_are_kept_apart() {
    let node = node(Bounds::default());
    // A test over TCP that waits for its stream must not take a hello.
    let _waits = begin(node.at, PARAMS);
    let run = |(streams, direction)| {
        let order = DatagramOrder { streams, direction, seconds: 0.3, bytes: 500, rate_bit_s: 400_000 };
        test_datagrams(node.at, &order, &Stop::default())
    };
    let tests = [
        (1, Directions::Forward),
        (3, Directions::Reverse),
        (2, Directions::Both),
        (1, Directions::Reverse),
        (4, Directions::Forward),
    ];
    std::thread::scope(|scope| {
        let tests = tests.map(|test| (test, scope.spawn(move || run(test))));
        for (test, thread) in tests {
            let found = thread.join().unwrap().unwrap_or_else(|error| panic!("{test:?}: {error}"));
            for (sends, near) in &found.near {
                let far = found.far.iter().find(|far| far.id == near.id).unwrap();
                let (sent, received) = if *sends { (near, far) } else { (far, near) };
                // Each test has its own streams: no bytes of another test arrived.
                assert!(received.packets > 0 && received.packets <= sent.packets, "{test:?}: {sent:?}, {received:?}");
                assert_eq!((received.lost, received.bytes), (0, received.packets * 500), "{test:?}");
            }
        }
    });
}

#[test]
fn a_surplus_stream_is_closed() {
    let node = node(Bounds::default());
    let (_control, _stream) = begin_stream(node.at, PARAMS);
    let mut late = TcpStream::connect(node.at).unwrap();
    late.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    late.write_all(COOKIE).unwrap();
    assert_eq!(late.read(&mut [0]).unwrap(), 0);
    assert!(matches!(node.outcome(), Err(Error::Refused { .. })));
}

/// The receiving client decides when a test ends: the node sends until then, even more than the agreed bytes.
#[test]
fn the_node_sends_until_the_client_ends_the_test() {
    let node = node(Bounds::default());
    let params = br#"{"tcp":true,"time":0,"num":20000,"parallel":1,"len":1000,"reverse":true}"#;
    let (mut control, mut stream) = begin_stream(node.at, params);
    stream.read_exact(&mut [0; 50_000]).unwrap();
    control.write_all(&[4]).unwrap();
    // The rest of the sent bytes is counted, and arrives.
    assert_eq!(read_states(&mut control), [13]);
    control.write_all(&text(br#"{"streams":[]}"#)).unwrap();
    let mut length = [0; 4];
    control.read_exact(&mut length).unwrap();
    let mut results = vec![0; u32::from_be_bytes(length) as usize];
    control.read_exact(&mut results).unwrap();
    assert_eq!(read_states(&mut control), [14]);
    control.write_all(&[16]).unwrap();
    let rest = stream.read_to_end(&mut Vec::new()).unwrap() as u64;
    assert_eq!(node.outcome().unwrap().results.streams[0].bytes, 50_000 + rest);

    let params = br#"{"udp":true,"time":0,"blockcount":5,"parallel":1,"len":1000,"bandwidth":8000000,"reverse":true}"#;
    let (_control, stream) = begin_datagrams(node.at, params);
    for _ in 0..15 {
        stream.recv(&mut [0; 2_000]).unwrap();
    }
}

#[test]
fn a_running_test_sees_the_node_stop() {
    let node = node(Bounds::default());
    let (mut control, mut stream) = begin_stream(node.at, br#"{"tcp":true,"time":60,"parallel":1,"len":1000}"#);
    stream.write_all(&[7; 5_000]).unwrap();
    let from = Instant::now();
    node.stop.stop();
    assert_eq!(read_states(&mut control), [11]);
    assert!(matches!(node.outcome(), Err(Error::Interrupted)));
    assert!(from.elapsed() < Duration::from_secs(10), "{:?}", from.elapsed());
}

/// At the end of a test both ends wait for bytes in flight. This time does not count for the rates.
#[test]
fn waiting_for_bytes_in_flight_does_not_count_for_the_rates() {
    const SETTLES: f64 = 0.08;
    let node = node(Bounds::default());
    let from = Instant::now();
    let (mut control, mut stream) = begin_stream(node.at, PARAMS);
    stream.write_all(&[7; 5_000]).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    control.write_all(&[4]).unwrap();
    assert_eq!(read_states(&mut control), [13]);
    let settled = from.elapsed().as_secs_f64();
    control.write_all(&text(br#"{"streams":[]}"#)).unwrap();
    let _ = control.read(&mut [0; 4_000]);
    drop((control, stream));
    let done = node.outcome().unwrap();
    let seconds = done.elapsed.as_secs_f64();
    let span = done.results.streams[0].span_s.1;
    assert!(seconds >= 0.2 - 0.01 && seconds <= settled - SETTLES, "{seconds} of {settled}");
    assert!(span <= settled - SETTLES, "{span} of {settled}");

    let order =
        DatagramOrder { streams: 1, direction: Directions::Forward, seconds: 0.5, bytes: 500, rate_bit_s: 400_000 };
    let from = Instant::now();
    let found = test_datagrams(node.at, &order, &Stop::default()).unwrap();
    let settled = from.elapsed().as_secs_f64();
    assert!(found.seconds >= 0.5 && found.seconds <= settled - SETTLES, "{} of {settled}", found.seconds);
}

/// When an address has moved as much as it may, its test ends, and no other begins.
#[test]
fn an_address_that_has_moved_its_limit_is_refused() {
    let reported = Arc::new(AtomicU64::new(0));
    let sum = Arc::clone(&reported);
    let node = node_reporting_to(Bounds::default(), move |address, more| {
        assert!(address.is_ipv4());
        sum.fetch_add(more, Ordering::Relaxed) + more < 1_000_000
    });
    let long = Order { seconds: 300.0, pace_bit_s: 16_000_000, ..Order::default() };
    let from = Instant::now();
    let refused = test(node.at, &long, &Stop::default(), &mut |_| {}).unwrap_err();
    assert!(matches!(&refused, Error::Refused { why, .. } if why.contains("ended the test")), "{refused}");
    assert!(from.elapsed() < Duration::from_secs(60));
    assert!(node.outcome().unwrap_err().to_string().contains("as much as it may"));
    let moved = reported.load(Ordering::Relaxed);
    assert!((1_000_000..20_000_000).contains(&moved), "{moved}");
    let refused = test(node.at, &long, &Stop::default(), &mut |_| {}).unwrap_err();
    assert!(refused.to_string().contains("busy"), "{refused}");
}
