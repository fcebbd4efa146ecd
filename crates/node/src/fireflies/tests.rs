//! Fireflies and labels, on sockets of this host.

#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use serde_json::Value;
use web::{Dialer, HttpUrl};

use super::*;

const TAG: &str = "452";

fn collector() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

fn next(collector: &UdpSocket) -> Value {
    let mut bytes = [0; 2048];
    let got = collector.recv(&mut bytes).expect("a firefly within five seconds");
    let text = std::str::from_utf8(&bytes[..got]).unwrap();
    let (header, json) = text.split_once(" - firefly-json - ").unwrap();
    assert!(header.starts_with("<134>1 20") && header.ends_with(" here longhaul"), "{header}");
    serde_json::from_str(json).unwrap()
}

fn is_silent(collector: &UdpSocket) -> bool {
    collector.set_nonblocking(true).unwrap();
    let silent = collector.recv(&mut [0]).is_err();
    collector.set_nonblocking(false).unwrap();
    silent
}

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (near, listener.accept().unwrap().0)
}

fn pass(from: &mut TcpStream, to: &mut TcpStream, bytes: usize) {
    from.write_all(&vec![7; bytes]).unwrap();
    to.read_exact(&mut vec![0; bytes]).unwrap();
}

fn ports(report: &Value) -> (u64, u64) {
    (report["flow-id"]["src-port"].as_u64().unwrap(), report["flow-id"]["dst-port"].as_u64().unwrap())
}

#[test]
fn each_flow_of_a_connection_has_its_own_numbers() {
    let (collector, address) = collector();
    let fireflies = Fireflies::new(vec![address], "here".into());
    let (mut near, mut far) = pair();
    let local = u64::from(near.local_addr().unwrap().port());
    let peer = u64::from(near.peer_addr().unwrap().port());
    pass(&mut near, &mut far, 5000);
    for bytes in [20_000, 30_000] {
        let flow = fireflies.begin(SciTag::parse(TAG), &near, true);
        let report = next(&collector);
        assert_eq!((&report["flow-lifecycle"]["state"], ports(&report)), (&"start".into(), (local, peer)));
        pass(&mut near, &mut far, bytes);
        flow.ongoing();
        assert_eq!(next(&collector)["flow-lifecycle"]["state"], "ongoing");
        pass(&mut far, &mut near, 10);
        flow.end();
        let report = next(&collector);
        assert_eq!(report["flow-lifecycle"]["state"], "end");
        assert_eq!((&report["usage"]["sent"], &report["usage"]["received"]), (&bytes.into(), &10.into()));
        assert!(report["netlink"]["rtt"].as_f64().unwrap() > 0.0, "{report}");
    }
    assert!(is_silent(&collector));
}

#[test]
fn a_receiver_reports_the_numbers_of_the_source() {
    let (collector, address) = collector();
    let fireflies = Fireflies::new(vec![address], "here".into());
    let (mut near, mut far) = pair();
    let ends = (near.peer_addr().unwrap().port().into(), near.local_addr().unwrap().port().into());
    // 300 bytes are in the kernel, and 200 were read ahead, before the flow begins.
    far.write_all(&[1; 500]).unwrap();
    near.read_exact(&mut [0; 200]).unwrap();
    while sys::tcp::unread_bytes(&near) < 300 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let flow = fireflies.begin(SciTag::parse(TAG), &near, false).with_unread(200);
    assert_eq!(ports(&next(&collector)), ends);
    near.read_exact(&mut [0; 300]).unwrap();
    // The owner is gone and the connection closed, and its end is reported nevertheless.
    drop(near);
    drop(far);
    drop(flow);
    let report = next(&collector);
    // The kernel counts the end of a connection as a byte, in either direction.
    let (sent, received) = (report["usage"]["sent"].as_u64().unwrap(), report["usage"]["received"].as_u64().unwrap());
    assert!(ports(&report) == ends && (500..=501).contains(&sent) && received <= 1, "{report}");
}

#[test]
fn a_flow_without_a_scitag_is_not_reported() {
    let (collector, address) = collector();
    let (near, _far) = pair();
    let fireflies = Fireflies::new(vec![address], "here".into());
    fireflies.begin(SciTag::UNMARKED, &near, true).end();
    assert!(is_silent(&collector));
    assert!(Fireflies::new(Vec::new(), "here".into()).begin(SciTag::parse(TAG), &near, true).0.is_none());
    assert!(FlowGuard::default().0.is_none());
}

#[test]
fn a_collector_that_cannot_be_reached_does_not_affect_the_others() {
    let (collector, address) = collector();
    // A socket may send broadcasts only after it has enabled them.
    let fireflies = Fireflies::new(vec!["255.255.255.255:10514".parse().unwrap(), address], "here".into());
    let (near, _far) = pair();
    fireflies.begin(SciTag::parse(TAG), &near, true).end();
    assert_eq!(next(&collector)["flow-lifecycle"]["state"], "start");
    assert_eq!(next(&collector)["flow-lifecycle"]["state"], "end");
    assert!(fireflies.0.unwrap().has_warned.load(Ordering::Relaxed));
}

/// The label that the other end sees on a connection that is made as those of copies.
fn arrived(listener: &TcpListener, tag: Option<SciTag>) -> u32 {
    let tls = rustls::ClientConfig::builder_with_provider(engine::identity::provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    let (connect, silence) = (Duration::from_secs(5), Duration::from_secs(5));
    let dialer =
        Dialer { tls: Arc::new(tls), guard: Arc::new(|_| Ok(())), prepare: tag.map(prepare), connect, silence };
    let url = HttpUrl::parse(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
    let mut conn = dialer.dial(&url).unwrap();
    conn.write_all(b"x").unwrap();
    let (mut far, _) = listener.accept().unwrap();
    far.read_exact(&mut [0]).unwrap();
    sys::flow_label::arrived_flow_label(&far).unwrap()
}

#[test]
fn copies_are_labelled() {
    let listener = TcpListener::bind("[::1]:0").and_then(|listener| {
        sys::flow_label::watch_flow_label(&listener)?;
        Ok(listener)
    });
    let listener = match listener {
        Ok(listener) => listener,
        Err(error) => {
            let _ = writeln!(io::stderr(), "SKIPPED copies_are_labelled: no IPv6 with labels here: {error}");
            return;
        }
    };
    let tag = SciTag::parse(TAG);
    let own = tag.flow_label(0).unwrap();
    let random_bits = tag.flow_label(u32::MAX).unwrap() & !own;
    let seen: BTreeSet<u32> = (0..12).map(|_| arrived(&listener, Some(tag))).collect();
    assert!(seen.iter().all(|label| label & !random_bits == own), "{seen:?}");
    // Twelve random draws from 32 values are all equal with a probability of 32^-11.
    assert!(seen.len() > 1, "{seen:?}");
    // The kernel's own label is random: it equals the SciTag's twice in one of 2^30 cases.
    assert!((0..2).any(|_| arrived(&listener, None) & !random_bits != own));
}
