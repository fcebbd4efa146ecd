//! Tests of frames, and of a connection to a broker with fixed answers.

use proptest::prelude::*;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::*;

/// A broker that gives the next of `answers` to each frame, and then ends; returns the frames that it received.
async fn broker(stream: impl AsyncRead + AsyncWrite + Unpin, answers: &[&str]) -> Vec<String> {
    let mut stream = stream;
    let mut received = Vec::new();
    for answer in answers {
        let mut frame = Vec::new();
        while frame.last() != Some(&0) {
            frame.push(stream.read_u8().await.unwrap());
        }
        received.push(String::from_utf8(frame).unwrap());
        stream.write_all(answer.as_bytes()).await.unwrap();
    }
    stream.flush().await.unwrap();
    received
}

fn message(body: &str) -> Message {
    Message { destination: "/topic/t".into(), vo: "astro".into(), body: body.into() }
}

const LOGIN: Login<'static> = Login { user: Some("u"), password: "p", virtual_host: "/" };
const CONNECTED: &str = "CONNECTED\nversion:1.2\n\n\0";

#[tokio::test]
async fn sending_ends_when_each_message_has_its_receipt() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = Broker { host: "127.0.0.1".into(), port: listener.local_addr().unwrap().port(), is_secure: false };
    let roots = Arc::new(RootCertStore::empty());
    let serving = tokio::spawn(async move {
        let receipts = ["RECEIPT\nreceipt-id:1\n\n\0", "RECEIPT\nreceipt-id:2\n\n\0\n"];
        let frames = broker(listener.accept().await.unwrap().0, &[CONNECTED, receipts[0], receipts[1]]).await;
        broker(listener.accept().await.unwrap().0, &[CONNECTED, receipts[0], "ERROR\nmessage:no such topic\n\nwhy\0"])
            .await;
        broker(listener.accept().await.unwrap().0, &["ERROR\nmessage:Bad CONNECT\n\nAccess refused\0"]).await;
        frames
    });
    let mut connection = Connection::open(&to, &LOGIN, &roots).await.unwrap();
    connection.send(&[message("{\"a\":1}"), message("{\"b\":2}")]).await.unwrap();
    assert!(
        connection.wait(Duration::from_secs(20)).await.is_err(),
        "the end of the connection is noticed with nothing to send"
    );
    let mut connection = Connection::open(&to, &LOGIN, &roots).await.unwrap();
    let error = connection.send(&[message("1"), message("2")]).await.unwrap_err().to_string();
    assert!(error.contains("no such topic why"), "{error}");
    let error = Connection::open(&to, &LOGIN, &roots).await.err().unwrap().to_string();
    assert!(error.contains("refuses the login: ERROR Bad CONNECT Access refused"), "{error}");
    let frames = serving.await.unwrap();
    assert!(
        frames[0].starts_with("CONNECT\naccept-version:1.2\n") && frames[0].contains("\nlogin:u\npasscode:p\n"),
        "{frames:?}"
    );
    assert!(
        frames[1].ends_with("receipt:1\n\n{\"a\":1}\0") && frames[2].ends_with("receipt:2\n\n{\"b\":2}\0"),
        "{frames:?}"
    );
}

#[tokio::test]
async fn the_certificate_of_a_broker_is_verified() {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(signing_key.serialize_der()));
    let builder = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions().unwrap();
    let config = builder.with_no_client_auth().with_single_cert(vec![cert.der().clone()], key).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("localhost:0").await.unwrap();
    let to = Broker { host: "localhost".into(), port: listener.local_addr().unwrap().port(), is_secure: true };
    let mut roots = RootCertStore::empty();
    roots.add(cert.der().clone()).unwrap();
    let serving = tokio::spawn(async move {
        let was_refused = acceptor.accept(listener.accept().await.unwrap().0).await.is_err();
        let stream = acceptor.accept(listener.accept().await.unwrap().0).await.unwrap();
        (was_refused, broker(stream, &[CONNECTED, "RECEIPT\nreceipt-id:1\n\n\0"]).await)
    });
    assert!(
        Connection::open(&to, &LOGIN, &Arc::new(RootCertStore::empty())).await.is_err(),
        "no authority vouches for its certificate"
    );
    let mut connection = Connection::open(&to, &LOGIN, &Arc::new(roots)).await.unwrap();
    connection.send(&[message("1")]).await.unwrap();
    let (was_refused, received) = serving.await.unwrap();
    assert!(was_refused && received.len() == 2);
}

#[test]
fn frames_are_parsed_from_a_stream_of_bytes() {
    let text =
        b"\n\r\nRECEIPT\nreceipt-id:7\nreceipt-id:8\n\n\0\nERROR\r\nmessage:no\r\ncontent-length:3\r\n\r\na\0b\0";
    for end in 0..text.len() {
        assert!(Frame::read(&text[..end]).unwrap().is_none_or(|(_, bytes)| bytes <= end));
    }
    let (receipt, bytes) = Frame::read(text).unwrap().unwrap();
    assert_eq!((receipt.command.as_str(), receipt.header("receipt-id")), ("RECEIPT", Some("7")));
    let (error, rest) = Frame::read(&text[bytes..]).unwrap().unwrap();
    assert_eq!((error.body.as_str(), error.why().as_str()), ("a\0b", "ERROR no ab"));
    assert_eq!(bytes + rest, text.len());
    assert!(
        Frame::read(b"X\ncontent-length:99999999\n\n").is_err() && Frame::read(b"X\ncontent-length:x\n\n").is_err()
    );
    assert!(Frame::read(&vec![b'x'; FRAME_BYTES_MAX + 1]).is_err());
}

#[test]
fn a_value_cannot_add_header_lines() {
    let message = Message { destination: "/topic/a".into(), vo: "a:b\nc\\".into(), body: "{}\u{4}".into() };
    let text = send(&message, 3);
    assert!(text.contains("\nvo:a\\cb\\nc\\\\\n") && text.ends_with("receipt:3\n\n{}\u{4}\0"), "{text}");
    let login = Login { user: Some("u\nhost:x"), password: "p:q", virtual_host: "/" };
    assert!(connect(&login).contains("\nlogin:uhost:x\npasscode:p:q\n"));
}

proptest! {
    #[test]
    fn any_bytes_are_parsed_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(Some((_, read))) = Frame::read(&bytes) {
            prop_assert!(read <= bytes.len() && read > 0);
        }
    }

    #[test]
    fn texts_like_frames_do_not_panic(text in "(RECEIPT|ERROR)?\r?\n([a-z-]{0,6}:[0-9a-z]{0,3}\n|content-length:[0-9]{0,2}\n){0,3}\r?\n[a-z\0]{0,9}") {
        let _ = Frame::read(text.as_bytes());
    }
}
