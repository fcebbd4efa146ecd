//! `--fips`: ciphers that FIPS 140-3 approves, alone.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use rustls::CipherSuite;
use wire::Frame;
use wire::frame::Suite;

use crate::client::{Client, words};
use crate::https::{handshake, setup};
use crate::node::{Node, Setup};
use crate::raw_client::RawClient;
use crate::tree::pattern;

/// A node that anybody may use.
fn node(change: impl FnOnce(Setup) -> Setup) -> Node {
    change(setup("").arg("--anonymous").arg("rw")).start()
}

/// The suite by which a node seals for a client that prefers these.
fn chosen(node: &Node, preferred: &[Suite]) -> Result<Suite, engine::Error> {
    let mut raw_client = RawClient::connect(node);
    let mut login = raw_client.login();
    if let Frame::Login { suites, .. } = &mut login {
        *suites = preferred.to_vec();
    }
    raw_client.send(&login);
    loop {
        if let Some(welcome) = raw_client.link.welcome() {
            return Ok(welcome.suite.expect("payload is sealed"));
        }
        raw_client.link.exchange(Duration::from_millis(200))?;
        raw_client.link.next_frame()?;
    }
}

/// The cipher suite of TLS that a node takes from a client that offers these; none if they have none in common.
fn negotiated(node: &Node, offered: &[CipherSuite]) -> Option<CipherSuite> {
    let mut provider = rustls::crypto::aws_lc_rs::default_provider();
    provider.cipher_suites.retain(|suite| offered.contains(&suite.suite()));
    let tls = handshake(node, Arc::new(provider)).ok()?;
    tls.negotiated_cipher_suite().map(|suite| suite.suite())
}

#[test]
fn a_node_with_fips_takes_aes_gcm_alone() {
    let all = [Suite::Aegis128L, Suite::ChaCha20Poly1305, Suite::Aes128Gcm];
    let [chacha, aes] = [CipherSuite::TLS13_CHACHA20_POLY1305_SHA256, CipherSuite::TLS13_AES_256_GCM_SHA384];
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("node.toml");
    fs::write(&file, "fips = true\n").unwrap();
    for node in [node(|setup| setup.arg("--fips")), node(|setup| setup.arg("--config").arg(&file))] {
        assert_eq!(chosen(&node, &all).unwrap(), Suite::Aes128Gcm);
        let refused = chosen(&node, &[Suite::ChaCha20Poly1305]).unwrap_err().to_string();
        assert!(refused.contains("no cipher in common"), "{refused}");
        assert_eq!(negotiated(&node, &[chacha]), None);
        assert_eq!(negotiated(&node, &[chacha, aes]), Some(aes));
    }
    let other = node(|setup| setup);
    assert_eq!(chosen(&other, &[Suite::ChaCha20Poly1305, Suite::Aes128Gcm]).unwrap(), Suite::ChaCha20Poly1305);
    assert_eq!(negotiated(&other, &[chacha]), Some(chacha), "without the option");
}

#[test]
fn clients_and_nodes_with_and_without_fips_understand_one_another() {
    let client = Client::new();
    let file = client.write("f", pattern(3 << 20));
    for node in [node(|setup| setup.arg("--fips")), node(|setup| setup)] {
        for (at, option) in [None, Some("--fips")].into_iter().enumerate() {
            let mut all = words!["cp", file, node.at(&format!("data/g{at}"))];
            all.extend(option.map(Into::into));
            client.run(all).expect(0);
            assert_eq!(fs::read(node.data(&format!("g{at}"))).unwrap(), pattern(3 << 20));
        }
    }
}
