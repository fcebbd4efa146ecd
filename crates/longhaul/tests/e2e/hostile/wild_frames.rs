//! Random frames, from seeds, in native sessions: each session ends or is answered, and leaves nothing behind.

use std::time::{Duration, Instant};

use model::Algorithm;
use wire::Frame;
use wire::frame::{Direction, Entry, Outcome, Request, Verdict};

use super::measures::{contents, memory, threads};
use super::session::{Session, order_at, place};
use crate::node::{Node, Setup};
use crate::raw_client::{RawClient, dir, encoded, file, inline, part};
use crate::wait::{LONG, until};

const SESSIONS: u64 = 300;

/// A xorshift generator (Marsaglia 2003): a seed determines the whole session.
struct SeededRng(u64);

impl SeededRng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, most: u64) -> u64 {
        self.next() % most
    }
}

/// A frame that is valid in some state, with random numbers.
fn frame(rng: &mut SeededRng) -> Frame {
    let (id, size) = (rng.below(4), rng.below(1 << 17));
    match rng.below(16) {
        0 => Frame::Open(order_at(Direction::Push, place("data", "t"))),
        1 => Frame::Open(order_at(Direction::Pull, place("data", "there"))),
        2 => Frame::Request(id as u32, Request::List(place("data", ""))),
        3 => Frame::Request(id as u32, Request::Digest(place("data", "there"), vec![Algorithm::Md5])),
        4 => Frame::Request(id as u32, Request::Jobs(None)),
        5 => Frame::Entries(vec![dir(1, 0, "t"), file(2, 1, "f", size)]),
        6 => Frame::Entries(vec![Entry::Leave(id)]),
        7 => Frame::Verdicts(vec![(id, Verdict::Want)]),
        8 => Frame::Outcomes(vec![(id, Outcome::Done)]),
        9 => Frame::ScanEnd(id),
        10 => Frame::Received(vec![(id as u32, size)]),
        11 => Frame::Again(vec![(id, size, size)]),
        12 => inline(part(id, size, b"abc"), b"abc"),
        13 => Frame::Held(vec![(id, size, 1)]),
        14 => Frame::Keep(size),
        _ => Frame::Renew { key: None, opened: id as u32, kept: vec![id as u32] },
    }
}

/// The bytes of a frame, sometimes with bytes changed, cut or added.
fn bytes(rng: &mut SeededRng) -> Vec<u8> {
    let mut bytes = encoded(&frame(rng));
    match rng.below(4) {
        0 => {
            for _ in 0..=rng.below(4) {
                let at = rng.below(bytes.len() as u64) as usize;
                bytes[at] = rng.next() as u8;
            }
        }
        1 => {
            // A random body after a head with its length.
            let len = rng.below(300) as usize;
            let body: Vec<u8> = (0..len).map(|_| rng.next() as u8).collect();
            bytes = (len as u32 + 2).to_be_bytes().to_vec();
            bytes.extend([rng.below(40) as u8, rng.below(2) as u8]);
            bytes.extend(body);
        }
        _ => {}
    }
    bytes
}

fn play(node: &Node, seed: u64) {
    let mut rng = SeededRng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut raw_client = RawClient::logged_in(node);
    for _ in 0..=rng.below(20) {
        let piece = bytes(&mut rng);
        if raw_client.link.send_raw(&piece).is_err() || raw_client.link.exchange(Duration::from_millis(1)).is_err() {
            return;
        }
        while let Ok(Some(_)) = raw_client.link.next_frame() {}
    }
}

#[test]
fn random_frames_end_sessions_and_nothing_else() {
    let node = Setup::new().data_export("rw").arg("--anonymous").arg("rw").start();
    std::fs::write(node.data("there"), b"as it was").unwrap();
    drop(Session::open(&node, None).unwrap());
    let (began, memory_before, threads_before) = (Instant::now(), memory(&node), threads(&node));
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let node = &node;
            scope.spawn(move || (0..SESSIONS / 4).for_each(|round| play(node, round * 4 + worker + 1)));
        }
    });
    until("their threads have ended", LONG, || threads(&node) <= threads_before + 2);
    let mut session = Session::open(&node, None).unwrap();
    let lines = session.query(Request::List(place("data", ""))).unwrap();
    assert!(!lines.is_empty(), "after {:?}", began.elapsed());
    let grown = memory(&node).saturating_sub(memory_before);
    assert!(grown < 64 << 20, "{} MiB more memory", grown >> 20);
    // The random frames write below `t` only.
    let others = contents(&node.data("")).into_iter().filter(|(path, _)| !path.starts_with(node.data("t")));
    let others: Vec<_> = others.collect();
    assert_eq!(others, [(node.data("there"), b"as it was".to_vec())]);
}
