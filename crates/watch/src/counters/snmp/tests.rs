//! Agents with malformed answers, and passwords that are absent or too short; `tests/agents.rs` has a real agent.

use std::net::UdpSocket;
use std::path::PathBuf;

use crate::config::{SnmpCipher, SnmpDigest, SnmpUser};

use super::*;

/// How many sessions are tried.
const TRIES: usize = 3;

/// An agent that gives the same answer to that many requests.
fn answering(requests: usize, answer: &'static [u8]) -> (String, std::thread::JoinHandle<()>) {
    let agent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = agent.local_addr().unwrap().to_string();
    let thread = std::thread::spawn(move || {
        let mut request = [0; 1_500];
        for _ in 0..requests {
            let (_, from) = agent.recv_from(&mut request).unwrap();
            agent.send_to(answer, from).unwrap();
        }
    });
    (at, thread)
}

const MALFORMED: &[u8] = &[0x30, 0x84, 0xff, 0xff, 0xff, 0xff, 2];

fn user(auth: &std::path::Path, privacy: &std::path::Path) -> SnmpLogin {
    SnmpLogin::User(SnmpUser {
        name: "watch".into(),
        auth: SnmpDigest::Sha256,
        auth_file: auth.to_owned(),
        privacy: Some((SnmpCipher::Aes128, privacy.to_owned())),
    })
}

#[test]
fn a_malformed_answer_is_an_error() {
    let (at, answering) = answering(TRIES, MALFORMED);
    let why = SnmpInterface::new(&at, "1", SnmpLogin::Community(None)).read().unwrap_err();
    answering.join().unwrap();
    assert!(why.contains(&at) && why.contains("community"), "{why}");
}

#[test]
fn a_malformed_answer_to_a_user_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("password");
    std::fs::write(&file, "long enough\n").unwrap();
    let (at, answering) = answering(TRIES, MALFORMED);
    let why = SnmpInterface::new(&at, "1", user(&file, &file)).read().unwrap_err();
    answering.join().unwrap();
    assert!(why.contains(&at) && why.contains("privacy"), "{why}");
}

#[test]
fn a_password_that_is_absent_or_too_short_is_named_by_its_file() {
    let dir = tempfile::tempdir().unwrap();
    let [good, short] = ["good", "short"].map(|name| dir.path().join(name));
    std::fs::write(&good, "long enough").unwrap();
    std::fs::write(&short, "1234567\n").unwrap();
    let refused = |auth: &PathBuf, privacy: &PathBuf| {
        SnmpInterface::new("127.0.0.1:9", "1", user(auth, privacy)).read().unwrap_err()
    };
    for why in [refused(&short, &good), refused(&good, &short)] {
        assert!(why.contains("short") && why.contains("8 characters") && !why.contains("1234567"), "{why}");
    }
    assert!(refused(&dir.path().join("none"), &good).contains("none"));
}
