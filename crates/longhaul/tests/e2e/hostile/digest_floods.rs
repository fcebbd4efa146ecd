//! Native digests of large empty files: few are made at a time, and none for clients that have disconnected.

use std::fs::File;
use std::time::Duration;

use model::Algorithm;
use wire::Frame;
use wire::frame::Request;

use super::measures::{busy_threads, processor_time, threads};
use super::requests::Requests;
use super::session::{Session, place};
use crate::client::{Client, words};
use crate::node::Setup;
use crate::wait::{LONG, until};

/// The most digests that a node makes at a time, over all protocols.
const DIGESTS_MAX: usize = 16;
const SESSIONS: usize = 40;

#[test]
fn digests_of_many_sessions_take_turns_and_end_with_them() {
    let node = Setup::new().data_export("rw").arg("--anonymous").arg("ro").arg("--plain").start();
    let file = File::create(node.data("sparse")).unwrap();
    if let Err(error) = file.set_len(4 << 40) {
        return crate::wait::skipped("hostile::digest_floods", &format!("no file of 4 TiB here: {error}"));
    }
    std::fs::write(node.data("f"), b"x").unwrap();
    // After its first answer a node has all the threads of its own.
    assert_eq!(Requests::new(&node, None).status("GET", "/data/f", &[], b""), 200);
    let before = threads(&node);
    let mut open: Vec<Session> = (0..SESSIONS).map(|_| Session::open(&node, None).unwrap()).collect();
    for session in &mut open {
        session.raw_client.send(&Frame::Request(1, Request::Digest(place("data", "sparse"), vec![Algorithm::Md5])));
    }
    until("digests are made", LONG, || busy_threads(&node) > 0);
    // The lowest count of busy threads is that of the readers: without a bound all sessions would read all the time, while other threads
    // are busy only now and then.
    let (mut most, mut reading) = (0, usize::MAX);
    for _ in 0..60 {
        (most, reading) = (most.max(threads(&node)), reading.min(busy_threads(&node)));
        std::thread::sleep(Duration::from_millis(10));
    }
    // A thread of its own for each session, another one for its request, and the readers.
    let bound = before + (2 * SESSIONS + DIGESTS_MAX + 8) as u64;
    assert!(most <= bound, "{most} threads, {before} before");
    assert!(reading <= DIGESTS_MAX + 8, "{reading} threads at work at once");
    assert_eq!(Requests::new(&node, None).status("GET", "/data/f", &[], b""), 200);
    drop(open);
    until("their threads have ended", LONG, || threads(&node) <= before + 2);
    until("nothing is read any more", LONG, || {
        let began = processor_time(&node);
        std::thread::sleep(Duration::from_millis(300));
        processor_time(&node) - began <= Duration::from_millis(30)
    });
}

#[test]
fn digests_of_clients_that_are_killed_end_too() {
    let node = Setup::new().data_export("rw").arg("--anonymous").arg("ro").start();
    if File::create(node.data("sparse")).unwrap().set_len(4 << 40).is_err() {
        return crate::wait::skipped("hostile::digest_floods", "no file of 4 TiB here");
    }
    let client = Client::new();
    client.run(words!["ls", node.at("data")]).expect(0);
    let before = threads(&node);
    let running: Vec<_> = (0..4).map(|_| client.begin(words!["digest", node.at("data/sparse")])).collect();
    until("digests are made", LONG, || busy_threads(&node) > 0 && threads(&node) > before);
    // Dropping kills.
    drop(running);
    until("their threads have ended", LONG, || threads(&node) <= before);
}
