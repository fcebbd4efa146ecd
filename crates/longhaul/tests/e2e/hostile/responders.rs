//! Unknown clients that hold tests of iperf3 open: threads stay few, and are released.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use super::measures::threads;
use super::requests::from_address;
use crate::node::Setup;
use crate::wait::{LONG, skipped, until};
use crate::web::raw::get;

const MANY: usize = 2600;
/// Source addresses: so many that the bound on one address is not the limit.
const ADDRESSES: usize = 40;
/// The most connections that are served at once, of all kinds.
const THREADS_MAX: u64 = 2048 + 64;

/// A cookie in the alphabet of stock iperf3.
fn cookie(at: usize) -> Vec<u8> {
    let letters: Vec<u8> = format!("{at:036}").bytes().map(|digit| digit - b'0' + b'a').collect();
    [letters, vec![0]].concat()
}

#[test]
fn held_tests_take_few_threads_and_give_them_back() {
    const TEST: &str = "hostile::responders::held_tests_take_few_threads_and_give_them_back";
    if sys::limits::raise_descriptor_limit() < 4 * MANY as u64 {
        return skipped(TEST, "too few descriptors");
    }
    let setup = Setup::new().data_export("rw").arg("--anonymous").arg("ro").arg("--plain");
    let node = setup.arg("--responders").arg("iperf3").start();
    std::fs::write(node.data("f"), b"x").unwrap();
    assert_eq!(get(&node, "/data/f").body, b"x");
    let before = threads(&node);
    // Cookies of one test, of different tests, and incomplete ones: from many addresses.
    for kind in ["one test", "many tests", "half a cookie"] {
        let mut held: Vec<TcpStream> = Vec::new();
        for at in 0..MANY {
            let mut socket = from_address([9, (at % ADDRESSES) as u8 + 1], node.port);
            let cookie = cookie(if kind == "one test" { 0 } else { at });
            let _ = socket.write_all(if kind == "half a cookie" { &cookie[..20] } else { &cookie });
            held.push(socket);
        }
        let most = (0..30).map(|_| {
            std::thread::sleep(Duration::from_millis(10));
            threads(&node)
        });
        let most = most.max().unwrap();
        assert!(most <= before + THREADS_MAX, "{MANY} of {kind}: {most} threads, {before} before");
        drop(held);
        until("their threads have ended", LONG, || threads(&node) <= before + 2);
        assert_eq!(get(&node, "/data/f").body, b"x");
    }
}
