//! Agents with faulty answers; `tests/receivers.rs` has a real one.

use std::net::UdpSocket;

use super::*;

#[test]
fn a_malformed_answer_is_an_error() {
    let agent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = agent.local_addr().unwrap().to_string();
    let answering = std::thread::spawn(move || {
        let mut request = [0; 1_500];
        for _ in 0..TRIES {
            let (_, from) = agent.recv_from(&mut request).unwrap();
            agent.send_to(&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff, 2], from).unwrap();
        }
    });
    let why = read(&at, "1", "public").unwrap_err();
    answering.join().unwrap();
    assert!(why.contains(&at) && why.contains("community"), "{why}");
}
