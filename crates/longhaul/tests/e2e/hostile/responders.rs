//! Strangers who hold tests of iperf3 open: threads stay few, and are given back.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::measures::threads;
use super::requests::from_address;
use crate::node::Setup;
use crate::wait::{LONG, until};
use crate::web::raw::get;

const MANY: usize = 600;
/// Tests at once, and what answers others meanwhile.
const THREADS_MAX: u64 = 64 + 200;

/// A cookie of stock's alphabet.
fn cookie(at: usize) -> Vec<u8> {
    let letters: Vec<u8> = format!("{at:036}").bytes().map(|digit| digit - b'0' + b'a').collect();
    [letters, vec![0]].concat()
}

#[test]
fn held_tests_take_few_threads_and_give_them_back() {
    let setup = Setup::new().data_export("rw").arg("--anonymous").arg("ro").arg("--plain");
    let node = setup.arg("--responders").arg("iperf3").start();
    std::fs::write(node.data("f"), b"x").unwrap();
    assert_eq!(get(&node, "/data/f").body, b"x");
    let before = threads(&node);
    // Of one test as many as it has streams, of others one each: by many addresses and by one.
    for is_one_test in [true, false] {
        let mut held: Vec<TcpStream> = Vec::new();
        for at in 0..MANY {
            let address = if at % 2 == 0 { [9, 1] } else { [9, (at % 250) as u8 + 2] };
            let mut socket = from_address(address, node.port);
            socket.set_nodelay(true).unwrap();
            let _ = socket.write_all(&cookie(if is_one_test { 0 } else { at }));
            held.push(socket);
        }
        let most = (0..100).map(|_| {
            std::thread::sleep(Duration::from_millis(10));
            threads(&node)
        });
        let most = most.max().unwrap();
        assert!(most <= before + THREADS_MAX, "{MANY} held connections, {most} threads, {before} before");
        assert_eq!(get(&node, "/data/f").body, b"x");
        for socket in &mut held {
            // What the node says of it is nobody's business here.
            let _ = socket.set_nonblocking(true);
            let _ = socket.read(&mut [0; 64]);
        }
        drop(held);
        until("their threads are gone", LONG, || threads(&node) <= before + 2);
    }
}
