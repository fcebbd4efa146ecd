//! First messages that trickle in: the node waits for the whole of each, not for its next byte, and serves others meanwhile.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use engine::Trust;
use rustls::ClientConnection;
use wire::version::SPOKEN;

use super::requests::from_address;
use crate::client::{Client, words};
use crate::node::{Node, Setup};
use crate::web::raw::get;

/// The pause between two bytes: none of the messages would be complete within its bound.
const PAUSE: Duration = Duration::from_millis(2500);

/// A message that is never complete: its start, the bytes that trickle afterwards, and when the node must give it up.
struct Trickle {
    what: &'static str,
    begins: Vec<u8>,
    then: Vec<u8>,
    within: Duration,
}

/// The first message of a client of the native protocol.
pub fn hello() -> Vec<u8> {
    let (config, _) = engine::identity::client_config(&Trust::Fingerprints(Vec::new()), SPOKEN).unwrap();
    let mut tls = ClientConnection::new(config, "localhost".try_into().unwrap()).unwrap();
    let mut bytes = Vec::new();
    tls.write_tls(&mut bytes).unwrap();
    bytes
}

/// First messages have 10 s, heads of HTTP 20 s. The rest is for a loaded machine.
fn trickles() -> Vec<Trickle> {
    let (first, head) = (Duration::from_secs(60), Duration::from_secs(44));
    let half = |bytes: &[u8]| (bytes[..bytes.len() / 2].to_vec(), bytes[bytes.len() / 2..].to_vec());
    let trickle = |what, (begins, then), within| Trickle { what, begins, then, within };
    let join = [b"LHS1", &[7; 16][..], &1_u32.to_be_bytes(), &[1], &[0; 32]].concat();
    vec![
        trickle("a join", (join[..4].to_vec(), join[4..].to_vec()), first),
        trickle("half a join", half(&join), first),
        trickle("one byte of a join", (b"L".to_vec(), join[1..].to_vec()), first),
        trickle("half a hello", half(&hello()), first),
        trickle("three bytes of a hello", (hello()[..3].to_vec(), hello()[3..].to_vec()), first),
        trickle("half a cookie", half(b"abcdefghijklmnopqrstuvwxyz234567abcd\0"), head),
        trickle("half a preface", half(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), head),
        trickle("a head", (b"GET /data/f HTTP/1.1\r\nHost: h\r\nA: ".to_vec(), vec![b'a'; 64]), head),
        trickle("two letters of a head", (b"GE".to_vec(), vec![b'T'; 64]), head),
    ]
}

/// How long the node lets a client trickle on. A final message before the end does not count.
fn time_to_end(mut socket: TcpStream, trickle: &Trickle) -> Duration {
    let began = Instant::now();
    let _ = socket.write_all(&trickle.begins);
    socket.set_read_timeout(Some(PAUSE)).unwrap();
    let mut rest = trickle.then.iter();
    while began.elapsed() < trickle.within + PAUSE {
        match socket.read(&mut [0; 512]) {
            Ok(0) => break,
            Ok(_) => continue,
            Err(e) if matches!(e.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {}
            Err(_) => break,
        }
        if rest.next().is_none_or(|byte| socket.write_all(&[*byte]).is_err()) {
            break;
        }
    }
    began.elapsed()
}

#[test]
fn a_trickling_first_message_is_given_up_in_time_and_delays_no_client() {
    let node = Setup::new().data_export("rw").arg("--anonymous").arg("rw").arg("--plain");
    let node = node.arg("--responders").arg("iperf3").start();
    std::fs::write(node.data("f"), b"x").unwrap();
    let trickles = trickles();
    let late: Vec<String> = std::thread::scope(|scope| {
        let mut running = Vec::new();
        for (at, trickle) in trickles.iter().enumerate() {
            for address in 0..9 {
                let socket = from_address([10 + address, 1 + at as u8], node.port);
                running.push((trickle, scope.spawn(move || time_to_end(socket, trickle))));
            }
        }
        while running.iter().any(|(_, thread)| !thread.is_finished()) {
            assert_served(&node);
            std::thread::sleep(Duration::from_millis(500));
        }
        let lasted = running.into_iter().map(|(trickle, thread)| (trickle, thread.join().unwrap()));
        let late = lasted.filter(|(trickle, lasted)| *lasted > trickle.within);
        late.map(|(trickle, lasted)| format!("{} lasted {lasted:?}", trickle.what)).collect()
    });
    assert!(late.is_empty(), "{late:#?}");
}

fn assert_served(node: &Node) {
    let began = Instant::now();
    assert_eq!(get(node, "/data/f").body, b"x");
    Client::new().run(words!["ls", node.at("data")]).expect(0);
    assert!(began.elapsed() < Duration::from_secs(60), "a new client waited {:?}", began.elapsed());
}
