//! HTTP/2 with a node, by the client of the `h2` library: many streams, bodies in both directions, and streams that end early.

#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

#[allow(dead_code, reason = "each test program uses its part")]
#[path = "support/open_node.rs"]
mod open_node;

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::client::SendRequest;
use h2::{Reason, RecvStream};
use http::{Request, Response};
use node::Node;
use open_node::OpenNode;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

const MIB: usize = 1 << 20;

struct HttpFixture {
    open_node: OpenNode,
}

impl HttpFixture {
    fn new(plain: bool) -> HttpFixture {
        HttpFixture { open_node: OpenNode::start_with("data", |config| config.plain = plain) }
    }

    fn node(&self) -> &Arc<Node> {
        &self.open_node.node
    }

    fn path(&self, name: &str) -> PathBuf {
        self.open_node.path("data").join(name)
    }

    fn write(&self, name: &str, bytes: usize) -> Vec<u8> {
        let content = content(bytes, name.len());
        std::fs::write(self.path(name), &content).unwrap();
        content
    }

    /// The names of all entries of the directory.
    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.path("")).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    async fn connect_in_clear(&self) -> SendRequest<Bytes> {
        client(TcpStream::connect(self.open_node.address).await.unwrap()).await
    }
}

fn content(bytes: usize, seed: usize) -> Vec<u8> {
    // One block is computed and then copied with its number in front, because tests are compiled without optimisation.
    let block: Vec<u8> = (0..2048_usize).map(|at| (at.wrapping_mul(31) ^ seed) as u8).collect();
    let mut content = Vec::with_capacity(bytes + block.len());
    while content.len() < bytes {
        let (at, number) = (content.len(), (content.len() >> 11) ^ seed);
        content.extend_from_slice(&block);
        content[at..at + 8].copy_from_slice(&number.to_le_bytes());
    }
    content.truncate(bytes);
    content
}

async fn client(io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> SendRequest<Bytes> {
    let (requests, connection) = h2::client::handshake(io).await.unwrap();
    tokio::spawn(connection);
    requests.ready().await.unwrap()
}

fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(600), test).await.unwrap() })
}

fn request(method: &str, name: &str) -> Request<()> {
    Request::builder().method(method).uri(format!("http://node/data/{name}")).body(()).unwrap()
}

async fn read(body: &mut RecvStream) -> Result<Vec<u8>, h2::Error> {
    let mut all = Vec::new();
    while let Some(piece) = body.data().await {
        let piece = piece?;
        body.flow_control().release_capacity(piece.len())?;
        all.extend_from_slice(&piece);
    }
    Ok(all)
}

async fn ask(client: &SendRequest<Bytes>, request: Request<()>) -> (Response<()>, Vec<u8>) {
    let mut client = client.clone().ready().await.unwrap();
    let (response, _) = client.send_request(request, true).unwrap();
    let (head, mut body) = response.await.unwrap().into_parts();
    let body = read(&mut body).await.unwrap();
    (Response::from_parts(head, ()), body)
}

/// Sends a body as the node grants capacity. The node may refuse the request before the body has been sent.
async fn put(client: &SendRequest<Bytes>, request: Request<()>, body: &[u8]) -> (Response<()>, Vec<u8>) {
    let mut client = client.clone().ready().await.unwrap();
    let (response, mut out) = client.send_request(request, false).unwrap();
    let mut at = 0;
    while at < body.len() {
        out.reserve_capacity(body.len() - at);
        let Some(Ok(room)) = std::future::poll_fn(|cx| out.poll_capacity(cx)).await else { break };
        let piece = &body[at..at + room];
        at += room;
        if out.send_data(Bytes::copy_from_slice(piece), at == body.len()).is_err() {
            break;
        }
    }
    let (head, mut body) = response.await.unwrap().into_parts();
    let body = read(&mut body).await.unwrap();
    (Response::from_parts(head, ()), body)
}

async fn many(contents: Vec<Vec<u8>>, client: SendRequest<Bytes>) {
    let tasks: Vec<_> = (0..contents.len())
        .map(|n| {
            let client = client.clone();
            tokio::spawn(async move { ask(&client, request("GET", &"x".repeat(n + 1))).await })
        })
        .collect();
    for (task, content) in tasks.into_iter().zip(contents) {
        let (head, body) = task.await.unwrap();
        assert_eq!(head.status(), 200);
        assert_eq!(head.headers()["content-length"], content.len().to_string());
        assert!(body == content);
    }
}

#[test]
fn many_streams_share_one_connection() {
    let fixture = HttpFixture::new(true);
    let contents: Vec<Vec<u8>> = (0..16).map(|n| fixture.write(&"x".repeat(n + 1), MIB + n)).collect();
    run(async { many(contents, fixture.connect_in_clear().await).await });
}

#[test]
fn heads_conform_to_http_2() {
    let fixture = HttpFixture::new(true);
    fixture.write("file", 1000);
    run(async {
        let client = fixture.connect_in_clear().await;
        let (head, body) = ask(&client, request("HEAD", "file")).await;
        assert_eq!((head.status().as_u16(), body.len()), (200, 0));
        assert_eq!(head.headers()["content-length"], "1000");
        assert!(!head.headers().contains_key("connection") && !head.headers().contains_key("transfer-encoding"));
        let (head, body) = ask(&client, request("GET", "none")).await;
        assert_eq!(head.status(), 404);
        assert_eq!(head.headers()["content-length"], body.len().to_string());
        let mut range = request("GET", "file");
        range.headers_mut().insert("range", "bytes=990-".parse().unwrap());
        let (head, body) = ask(&client, range).await;
        assert_eq!((head.status().as_u16(), body.len()), (206, 10));
        let mut other = request("GET", "file");
        other.headers_mut().insert("host", "elsewhere".parse().unwrap());
        assert_eq!(ask(&client, other).await.0.status(), 400);
        assert_eq!(ask(&client, request("DELETE", "file")).await.0.status(), 204);
    });
}

#[test]
fn bodies_are_stored_whole_or_not_at_all() {
    let fixture = HttpFixture::new(true);
    let body = content(24 * MIB + 5, 7);
    run(async {
        let client = fixture.connect_in_clear().await;
        // More than all windows together, with and without a length.
        let mut sized = request("PUT", "sized");
        sized.headers_mut().insert("content-length", body.len().to_string().parse().unwrap());
        assert_eq!(put(&client, sized, &body).await.0.status(), 201);
        assert_eq!(put(&client, request("PUT", "open"), &body).await.0.status(), 201);
        assert!(std::fs::read(fixture.path("sized")).unwrap() == body);
        assert!(std::fs::read(fixture.path("open")).unwrap() == body);
        // A stream that is reset midway.
        let mut sender = client.clone().ready().await.unwrap();
        let (_response, mut out) = sender.send_request(request("PUT", "half"), false).unwrap();
        out.send_data(Bytes::copy_from_slice(&body[..MIB]), false).unwrap();
        tokio::time::sleep(Duration::from_millis(200)).await;
        out.send_reset(Reason::CANCEL);
        // A connection that closes midway.
        let mut other = fixture.connect_in_clear().await;
        let (_response, mut out) = other.send_request(request("PUT", "cut"), false).unwrap();
        out.send_data(Bytes::copy_from_slice(&body[..MIB]), false).unwrap();
        tokio::time::sleep(Duration::from_millis(200)).await;
    });
    // The runtime has been dropped, with its connections.
    fixture.node().wait_idle(Duration::from_secs(60));
    let mut names = fixture.names();
    names.sort();
    assert_eq!((fixture.node().connections(), names), (0, vec!["open".to_owned(), "sized".to_owned()]));
}

#[test]
fn unread_bodies_do_not_use_up_the_window() {
    let fixture = HttpFixture::new(true);
    let body = content(MIB, 3);
    run(async {
        let client = fixture.connect_in_clear().await;
        for n in 0..64 {
            let mut part = request("PUT", "part");
            part.headers_mut().insert("content-range", "bytes 0-9/10".parse().unwrap());
            assert_eq!(put(&client, part, &body).await.0.status(), 400, "{n}");
        }
        assert_eq!(put(&client, request("PUT", "whole"), &body).await.0.status(), 201);
    });
}

#[test]
fn answers_that_fail_midway_are_reset() {
    let fixture = HttpFixture::new(true);
    fixture.write("shrinks", 32 * MIB);
    let error = run(async {
        let mut client = fixture.connect_in_clear().await;
        let (response, _) = client.send_request(request("GET", "shrinks"), true).unwrap();
        let mut body = response.await.unwrap().into_body();
        // The client has granted no more capacity: the node waits.
        tokio::time::sleep(Duration::from_millis(200)).await;
        std::fs::File::options().write(true).open(fixture.path("shrinks")).unwrap().set_len(MIB as u64).unwrap();
        read(&mut body).await.unwrap_err()
    });
    assert_eq!(error.reason(), Some(Reason::INTERNAL_ERROR), "{error}");
}

#[test]
fn clear_text_is_refused_unless_allowed() {
    let fixture = HttpFixture::new(false);
    let error = run(async {
        let socket = TcpStream::connect(fixture.open_node.address).await.unwrap();
        let (mut requests, connection) = h2::client::handshake::<_>(socket).await.unwrap();
        let _ = requests.send_request(request("GET", "x"), true);
        connection.await.unwrap_err()
    });
    assert_eq!(error.reason(), Some(Reason::INADEQUATE_SECURITY), "{error}");
}

#[test]
fn idle_connections_do_not_delay_the_end_of_a_node() {
    let fixture = HttpFixture::new(true);
    run(async {
        let client = fixture.connect_in_clear().await;
        assert_eq!(ask(&client, request("GET", "none")).await.0.status(), 404);
        let (node, began) = (Arc::clone(fixture.node()), Instant::now());
        let ends = tokio::task::spawn_blocking(move || node.end_sessions(Duration::from_secs(120)));
        ends.await.unwrap();
        assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
        assert_eq!(fixture.node().connections(), 0);
    });
}
