//! Sources behind TLS: the certificates that the node trusts, and that no redirect makes it leave TLS for clear HTTP.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::thread;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::peers::{Peer, answer, honest};
use super::pulls::pull;
use super::raw::plain;
use crate::wait::skipped;

/// A self-signed certificate for this host's address; none where no program can make one.
fn certificate(dir: &Path, test: &str) -> Option<()> {
    let (cert, key) = (dir.join("cert.pem"), dir.join("key.pem"));
    let names = "subjectAltName=IP:127.0.0.1";
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]);
    openssl.args(["-subj", "/CN=test", "-addext", names, "-addext", "basicConstraints=critical,CA:FALSE"]);
    openssl.arg("-keyout").arg(key).arg("-out").arg(cert);
    match openssl.output() {
        Ok(output) if output.status.success() => Some(()),
        Ok(output) => {
            skipped(test, String::from_utf8_lossy(&output.stderr).trim());
            None
        }
        Err(error) => {
            skipped(test, &format!("openssl: {error}"));
            None
        }
    }
}

/// TLS in front of a peer, one request for each connection. Answers for paths below `/cut` end without a close_notify.
fn tls_proxy(peer: &Peer, dir: &Path) -> u16 {
    let chain: Vec<_> = CertificateDer::pem_file_iter(dir.join("cert.pem")).unwrap().map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(dir.join("key.pem")).unwrap();
    let builder = ServerConfig::builder_with_provider(engine::identity::provider());
    let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let config = Arc::new(builder.with_single_cert(chain, key).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (port, to) = (listener.local_addr().unwrap().port(), peer.port);
    thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let mut tls = StreamOwned::new(ServerConnection::new(Arc::clone(&config)).unwrap(), socket);
            thread::spawn(move || {
                let (mut head, mut byte) = (Vec::new(), [0]);
                while !head.ends_with(b"\r\n\r\n") && matches!(tls.read(&mut byte), Ok(1)) {
                    head.push(byte[0]);
                }
                let mut clear = TcpStream::connect(("127.0.0.1", to)).unwrap();
                let _ = clear.write_all(&head);
                let _ = clear.shutdown(Shutdown::Write);
                let mut bytes = Vec::new();
                let _ = clear.read_to_end(&mut bytes);
                let _ = tls.write_all(&bytes);
                if !String::from_utf8_lossy(&head).contains(" /cut") {
                    tls.conn.send_close_notify();
                }
                let _ = tls.flush();
            });
        }
    });
    port
}

#[test]
fn no_redirect_leads_from_tls_to_clear_http() {
    let dir = tempfile::tempdir().unwrap();
    let Some(()) = certificate(dir.path(), "web::sealed::no_redirect_leads_from_tls_to_clear_http") else { return };
    let node = plain().arg("--cacert").arg(dir.path().join("cert.pem")).start();
    let data = crate::tree::pattern(700_000);
    let of_peer = data.clone();
    let clear = Peer::new(|request, socket| honest(request, socket, b"in clear", ""));
    let to = clear.url("/f");
    let inner = Peer::new(move |request, socket| match (request.target.as_str(), request.method.as_str()) {
        ("/away", _) | ("/late", "GET") => answer(socket, 307, &format!("Location: {to}\r\n"), b""),
        ("/round", _) => answer(socket, 307, "Location: /fine\r\n", b""),
        _ => honest(request, socket, &of_peer, ""),
    });
    let port = tls_proxy(&inner, dir.path());
    let url = |path: &str| format!("https://127.0.0.1:{port}{path}");
    let outcome = pull(&node, &url("/away"), &[]).expect(403);
    assert!(outcome.text().contains("to clear text"), "{}", outcome.text());
    let outcome = pull(&node, &url("/late"), &[]).expect(202);
    assert!(outcome.last_line().contains("to clear text"), "{}", outcome.text());
    assert!(clear.requests().is_empty() && node.is_empty());
    for (path, streams) in [("/fine", "1"), ("/round", "1"), ("/fine", "2")] {
        let outcome = pull(&node, &url(path), &[("X-Number-Of-Streams", streams)]).expect(202);
        assert_eq!(outcome.last_line(), "success: Created", "{path}: {}", outcome.text());
        assert!(std::fs::read(node.data("f")).unwrap() == data);
    }
    let davs = pull(&node, &format!("davs://127.0.0.1:{port}/fine"), &[]).expect(202);
    assert_eq!(davs.last_line(), "success: Created");
}

#[test]
fn an_untrusted_certificate_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let Some(()) = certificate(dir.path(), "web::sealed::an_untrusted_certificate_is_refused") else { return };
    let other = tempfile::tempdir().unwrap();
    certificate(other.path(), "the same").unwrap();
    let inner = Peer::new(|request, socket| honest(request, socket, b"x", ""));
    let port = tls_proxy(&inner, dir.path());
    // Another's authority; and the right one, for another name.
    let doubting = plain().arg("--cacert").arg(other.path().join("cert.pem")).start();
    let trusting = plain().arg("--cacert").arg(dir.path().join("cert.pem")).start();
    for (node, host) in [(&doubting, "127.0.0.1"), (&trusting, "localhost")] {
        let outcome = pull(node, &format!("https://{host}:{port}/f"), &[]).expect(502);
        assert!(outcome.text().contains("TLS"), "{}", outcome.text());
        assert!(node.is_empty());
    }
    // TLS where plain HTTP is expected.
    assert_eq!(pull(&trusting, &format!("http://127.0.0.1:{port}/f"), &[]).status, 502);
}

#[test]
fn a_cut_connection_is_not_the_end_of_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let Some(()) = certificate(dir.path(), "web::sealed::a_cut_connection_is_not_the_end_of_a_file") else { return };
    let node = plain().arg("--cacert").arg(dir.path().join("cert.pem")).start();
    // Neither a length nor chunks: only the end of the connection ends the file.
    let inner = Peer::new(|request, socket| {
        let body = if request.method == "GET" { "all of it" } else { "" };
        let _ = socket.write_all(format!("HTTP/1.1 200 OK\r\n\r\n{body}").as_bytes());
        false
    });
    let port = tls_proxy(&inner, dir.path());
    let outcome = pull(&node, &format!("https://127.0.0.1:{port}/cut"), &[]).expect(202);
    assert!(
        outcome.last_line().starts_with("failure: ") && outcome.last_line().contains("broke"),
        "{}",
        outcome.text()
    );
    assert!(node.is_empty());
    let outcome = pull(&node, &format!("https://127.0.0.1:{port}/whole"), &[]).expect(202);
    assert_eq!(outcome.last_line(), "success: Created", "{}", outcome.text());
    assert_eq!(std::fs::read(node.data("f")).unwrap(), b"all of it");
}
