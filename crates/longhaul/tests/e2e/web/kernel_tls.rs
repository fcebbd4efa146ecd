//! Long answers over TLS: a kernel that can (kTLS) seals them, and the client gets the same bytes either way.

use std::fs::{self, File};
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig, ServerConnection};
use web::Conn;

use super::raw::open;
use crate::https;
use crate::wait::{LONG, skipped};

/// A little more than the shortest answer that the kernel seals.
const LENGTH: u64 = (1 << 30) + 12_345;

/// The connections whose sending half the kernel has taken over since it started; none where it has no TLS.
fn taken_over() -> Option<u64> {
    let counters = fs::read_to_string("/proc/net/tls_stat").ok()?;
    counters.lines().find_map(|line| line.strip_prefix("TlsTxSw")?.trim().parse().ok())
}

#[test]
fn a_long_answer_over_tls_is_the_file_whoever_seals_it() {
    const NAME: &str = "web::kernel_tls::a_long_answer_over_tls_is_the_file_whoever_seals_it";
    if Command::new("curl").arg("--version").output().is_err() {
        return skipped(NAME, "curl is not installed");
    }
    let node = open();
    // A hole with a few bytes in it takes no space.
    let file = File::create(node.data("long")).unwrap();
    file.set_len(LENGTH).unwrap();
    for at in [0, 700 << 20, LENGTH - 9] {
        file.write_all_at(b"not zeros", at).unwrap();
    }
    let file = File::open(node.data("long")).unwrap();
    let before = taken_over();
    let url = format!("https://127.0.0.1:{}/data/long", node.port);
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--insecure", "--http1.1", &url]).stdout(Stdio::piped());
    let mut curl = command.spawn().unwrap();
    let mut body = curl.stdout.take().unwrap();
    let (mut got, mut expected, mut at) = (vec![0; 1 << 20], vec![0; 1 << 20], 0);
    loop {
        let count = body.read(&mut got).unwrap();
        if count == 0 {
            break;
        }
        file.read_exact_at(&mut expected[..count], at).unwrap();
        assert!(got[..count] == expected[..count], "between {at} and {}", at + count as u64);
        at += count as u64;
    }
    // curl fails where a connection ends without `close_notify`, or before the length of the body.
    assert!(curl.wait().unwrap().success());
    assert_eq!(at, LENGTH);

    // What the kernel seals ends its connection; what the process seals does not.
    let after = taken_over();
    assert_eq!(after.is_some(), before.is_some());
    assert!(after.zip(before).is_none_or(|(after, before)| after > before), "the kernel has TLS and did not seal");
    let mut twice = Command::new("curl");
    twice.args(["--silent", "--show-error", "--insecure", "--http1.1", "--write-out", "%{num_connects} "]);
    let output = twice.args([&url, &url, "--output", "/dev/null", "--output", "/dev/null"]).output().unwrap();
    let connects = if after.is_some() { "1 1 " } else { "1 0 " };
    assert_eq!(String::from_utf8(output.stdout).unwrap(), connects);
}

/// The ends of a connection whose server does not let secrets be extracted, before the handshake.
fn ends_without_extraction() -> (ServerConnection, ClientConnection) {
    let pem = https::certificate(&["127.0.0.1"], &[]);
    let chain = CertificateDer::pem_slice_iter(pem.as_bytes()).map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_slice(pem.as_bytes()).unwrap();
    let server = ServerConfig::builder_with_provider(engine::identity::provider());
    let server = server.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let server = Arc::new(server.with_single_cert(chain, key).unwrap());
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(https::authority().as_bytes()).unwrap()).unwrap();
    let client = ClientConfig::builder_with_provider(engine::identity::provider());
    let client = client.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
    let client = ClientConnection::new(Arc::new(client.with_no_client_auth()), "127.0.0.1".try_into().unwrap());
    (ServerConnection::new(server).unwrap(), client.unwrap())
}

#[test]
fn nothing_goes_in_clear_where_the_kernel_has_not_taken_over() {
    let (server, mut client) = ends_without_extraction();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let received = thread::spawn(move || {
        while client.is_handshaking() {
            client.complete_io(&mut socket).unwrap();
        }
        let mut bytes = Vec::new();
        let _ = socket.read_to_end(&mut bytes);
        bytes
    });
    let mut conn = Conn::new(listener.accept().unwrap().0, Some(Connection::Server(server))).unwrap();
    conn.handshake(Instant::now() + LONG).unwrap();
    conn.let_kernel_seal().unwrap_err();
    assert!(conn.write_all(b"in clear").is_err(), "the connection is over");
    drop(conn);
    let received = received.join().unwrap();
    assert!(!received.windows(8).any(|bytes| bytes == b"in clear"));
}
