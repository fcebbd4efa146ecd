//! Floods of HTTP/2 frames: the node ends them or keeps up with them, grows little, and serves others meanwhile.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::measures::{memory, threads};
use super::requests::from_address;
use crate::node::Node;
use crate::wait::{LONG, until};
use crate::web::raw::{get, open};

const GROWTH_MAX: u64 = 96 << 20;
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// How long a flood lasts where the node does not end it.
const SPAN: Duration = Duration::from_secs(4);

fn frame(kind: u8, flags: u8, stream: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = (body.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(body);
    bytes
}

/// GET /data/f of host h, in HPACK without a table (RFC 7541): method and scheme by their numbers, the rest as literals.
fn head(end: bool) -> Vec<u8> {
    let mut block = vec![0x82, 0x86, 0x04, 7];
    block.extend(b"/data/f");
    block.extend([0x01, 1, b'h']);
    frame(1, if end { 5 } else { 1 }, 1, &block)
}

fn on_stream(bytes: &[u8], stream: u32) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[5..9].copy_from_slice(&stream.to_be_bytes());
    bytes
}

/// A kind of flood: its name, and the bytes of its `at`th piece.
type Flood = (&'static str, fn(u32) -> Vec<u8>);

const FLOODS: &[Flood] = &[
    ("rapid reset", |at| {
        let stream = at * 2 + 1;
        [on_stream(&head(true), stream), frame(3, 0, stream, &8_u32.to_be_bytes())].concat()
    }),
    ("requests without an end", |at| on_stream(&head(false), at * 2 + 1)),
    ("requests whose answers are not read", |at| on_stream(&head(true), at * 2 + 1)),
    ("settings", |_| frame(4, 0, 0, &[0, 4, 0, 0, 255, 255].repeat(20))),
    ("empty settings", |_| frame(4, 0, 0, &[])),
    ("pings", |_| frame(6, 0, 0, &[7; 8])),
    ("windows", |_| frame(8, 0, 0, &1_u32.to_be_bytes())),
    ("priorities", |at| frame(2, 0, at * 2 + 1, &[0, 0, 0, 0, 9])),
    ("continuations", |at| match at {
        0 => frame(1, 0, 1, &[0x82, 0x86]),
        _ => frame(9, 0, 1, &[0x40, 1, b'a', 1, b'b'].repeat(100)),
    }),
    ("empty continuations", |at| if at == 0 { frame(1, 0, 1, &[0x82]) } else { frame(9, 0, 1, &[]) }),
    ("empty data", |at| if at == 0 { on_stream(&head(false), 1) } else { frame(0, 0, 1, &[]) }),
    ("a bomb of fields", |at| {
        let mut block = vec![0x82, 0x86, 0x04, 7];
        block.extend(b"/data/f");
        // One long field goes into the table, and is repeated again and again by one byte.
        block.extend([0x40, 1, b'a', 0x7f, 0x81, 0x1e]);
        block.extend([b'x'; 4000]);
        block.extend([0xbe; 12_000]);
        frame(1, 5, at * 2 + 1, &block)
    }),
    ("unknown frames", |_| frame(0xbb, 0, 0, &[7; 1000])),
    ("promises", |at| frame(5, 4, 1, &[&(at * 2 + 2).to_be_bytes()[..], &[0x82]].concat())),
];

/// Sends a flood until the node ends it or the time is over. Reads only to notice the end.
fn send_flood(mut socket: TcpStream, flood: fn(u32) -> Vec<u8>, stop: &AtomicBool) {
    let began = Instant::now();
    socket.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    if socket.write_all(&[PREFACE, &frame(4, 0, 0, &[])].concat()).is_err() {
        return;
    }
    for round in 0_u32.. {
        let piece: Vec<u8> = (round * 64..(round + 1) * 64).flat_map(flood).collect();
        let over = began.elapsed() > SPAN || stop.load(Ordering::Relaxed);
        let Err(error) = socket.write_all(&piece) else {
            if over {
                break;
            }
            continue;
        };
        // Full: a client that sends that much has to wait. Half a frame was sent, so this connection is done.
        if !matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) || over {
            return;
        }
        let _ = socket.set_read_timeout(Some(SPAN.saturating_sub(began.elapsed()).max(Duration::from_millis(1))));
        while matches!(socket.read(&mut [0; 1 << 16]), Ok(1..)) && began.elapsed() < SPAN {}
        return;
    }
}

fn slowest(node: &Node, stop: &AtomicBool) -> Duration {
    let mut slowest = Duration::ZERO;
    while !stop.load(Ordering::Relaxed) {
        let began = Instant::now();
        assert_eq!(get(node, "/data/f").body, b"x");
        slowest = slowest.max(began.elapsed());
        std::thread::sleep(Duration::from_millis(20));
    }
    slowest
}

#[test]
fn floods_of_http2_frames_are_survived() {
    let node = open();
    std::fs::write(node.data("f"), b"x").unwrap();
    assert_eq!(get(&node, "/data/f").body, b"x");
    let (before, threads_before) = (memory(&node), threads(&node));
    let stop = AtomicBool::new(false);
    let (most, waited) = std::thread::scope(|scope| {
        let floods: Vec<_> = FLOODS
            .iter()
            .enumerate()
            .flat_map(|(at, (_, flood))| (0..2).map(move |copy| (at, copy, *flood)))
            .map(|(at, copy, flood)| {
                let (socket, stop) = (from_address([20 + copy, at as u8 + 1], node.port), &stop);
                scope.spawn(move || send_flood(socket, flood, stop))
            })
            .collect();
        let waiting = scope.spawn(|| slowest(&node, &stop));
        let mut most = 0;
        while floods.iter().any(|flood| !flood.is_finished()) {
            most = most.max(memory(&node).saturating_sub(before));
            std::thread::sleep(Duration::from_millis(20));
        }
        stop.store(true, Ordering::Relaxed);
        (most, waiting.join().unwrap())
    });
    assert!(most < GROWTH_MAX, "{} MiB more memory", most >> 20);
    assert!(waited < Duration::from_secs(60), "others waited {waited:?}");
    until("their threads have ended", LONG, || threads(&node) <= threads_before + 4);
}
