//! TWAMP-Control with twamp-rs, another implementation (a crate): its controller against our server, our client against its responder.
//!
//! Its times are not compared: it writes nanoseconds where RFC 4656 has fractions of 2^-32 s (version 0.2.0).

use std::io::Read;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use model::v1::node::StreamTest;
use probe::Stop;
use probe::stamp::{Extent, HostClock, Order, Trust, run};
use probe::twamp::{Bounds, TestSession, begin, serve};

use super::peers::peer;
use super::relay::{loopback, reflector};

/// A session whose packets are answered anyway.
struct AcceptedSession;

impl TestSession for AcceptedSession {}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    loopback().local_addr().unwrap().port()
}

#[test]
fn the_server_works_with_the_controller_of_twamp_rs() {
    let test = "the_server_works_with_the_controller_of_twamp_rs";
    let far = reflector(Trust::Twamp, HostClock);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let [control, packets] = [listener.local_addr().unwrap().port(), far.address.port()].map(|port| port.to_string());
    let arguments = ["--responder-addr", "127.0.0.1", "--responder-port", &control, "--controller-addr", "127.0.0.1"];
    let more = ["--responder-reflect-port", &packets, "--number-of-test-packets", "50", "--timeout", "5"];
    let Some(mut program) = peer(test, "twamp-rs/bin/controller", &[&arguments[..], &more].concat()) else { return };
    let senders: Arc<Mutex<Vec<SocketAddr>>> = Arc::default();
    let known = Arc::clone(&senders);
    let port = far.address.port();
    let server = std::thread::spawn(move || {
        let (control, _) = listener.accept().unwrap();
        serve(control, port, Bounds::default(), &Stop::default(), &|from| {
            known.lock().unwrap().push(from);
            Some(Box::new(AcceptedSession))
        })
    });
    let mut output = String::new();
    program.0.stdout.take().unwrap().read_to_string(&mut output).unwrap();
    assert!(program.0.wait().unwrap().success(), "{output}");
    assert!(output.contains("Packet loss: 0%"), "{output}");
    assert_eq!(server.join().unwrap().unwrap(), 1, "one session");
    assert_eq!((senders.lock().unwrap().len(), far.end().answered), (1, 50));
}

#[test]
fn the_client_works_with_the_responder_of_twamp_rs() {
    let test = "the_client_works_with_the_responder_of_twamp_rs";
    let port = free_port();
    let Some(_program) = peer(test, "twamp-rs/bin/responder", &["--port", &port.to_string()]) else { return };
    let at = SocketAddr::from(([127, 0, 0, 1], port));
    let begun = Instant::now();
    let session = loop {
        match begin(at, &StreamTest::default()) {
            Ok(session) => break session,
            Err(error) => assert!(begun.elapsed() < Duration::from_secs(20), "{error}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let extent = Extent::Packets(60);
    let order = Order { rate_packets_s: 200.0, extent, timeout: Duration::from_millis(500), ..Order::default() };
    let found = run(&session.socket, &order, &Stop::default(), &HostClock).unwrap();
    let packets = &found.packets;
    assert_eq!((packets.sent, packets.received, packets.ignored, packets.lost), (60, 60, 0, 0), "{packets:?}");
    assert_eq!((packets.lost_forward, packets.lost_reverse, packets.duplicates), (Some(0), Some(0), 0), "{packets:?}");
}
