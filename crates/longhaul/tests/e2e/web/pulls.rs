//! Pulls from sources that break off, give wrong answers, change or redirect: the file is right or missing, and the
//! last line states which.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::peers::{Peer, PeerRequest, answer, begin, honest};
use super::raw::{Answer, Raw, ask, assert_swept, open, plain, put};
use crate::node::Node;
use crate::tree::pattern;
use crate::wait::{LONG, until};

pub fn pull(node: &Node, source: &str, fields: &[(&str, &str)]) -> Answer {
    let fields = [&[("Source", source)], fields].concat();
    ask(node, "COPY", "/data/f", &fields, &[])
}

/// A pull that fails after 202, and leaves what was there.
#[track_caller]
fn fails(node: &Node, source: &str, fields: &[(&str, &str)], saying: &str) {
    let before = fs::read(node.data("f")).ok();
    let outcome = pull(node, source, fields).expect(202);
    let last = outcome.last_line();
    assert!(outcome.whole && last.starts_with("failure: ") && last.contains(saying), "{saying}: {}", outcome.text());
    assert_eq!(fs::read(node.data("f")).ok(), before);
    assert_swept(node);
}

#[test]
fn a_refusal_of_the_source_is_passed_on() {
    let node = open();
    for (status, expected) in
        [(404, 404), (403, 403), (401, 401), (410, 410), (500, 500), (503, 503), (302, 502), (204, 502)]
    {
        let source = Peer::new(move |_, socket| begin(socket, status, 0, ""));
        let outcome = pull(&node, &source.url("/f"), &[]);
        assert_eq!(outcome.status, expected, "{status}: {}", outcome.text());
        assert!(outcome.text().contains(&format!("status code {status}")), "{}", outcome.text());
        assert_eq!(source.requests().len(), 1);
    }
    let garbage = Peer::new(|_, socket| {
        let _ = socket.write_all(b"SSH-2.0-OpenSSH_9\r\n\r\n");
        false
    });
    assert_eq!(pull(&node, &garbage.url("/f"), &[]).status, 502);
    let silent = Peer::new(|_, _| false);
    assert_eq!(pull(&node, &silent.url("/f"), &[]).status, 502);
    let endless = Peer::new(|_, socket| {
        while socket.write_all(b"HTTP/1.1 100 Continue\r\nA: b\r\n\r\n").is_ok() {}
        false
    });
    let began = Instant::now();
    assert!(pull(&node, &endless.url("/f"), &[]).status >= 500);
    assert!(began.elapsed() < Duration::from_secs(70));
    let bomb = Peer::new(|_, socket| {
        let _ = socket.write_all(b"HTTP/1.1 200 OK\r\n");
        while socket.write_all(&[b'a'; 4096]).is_ok() {}
        false
    });
    assert_eq!(pull(&node, &bomb.url("/f"), &[]).status, 502);
    let closed_port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    assert_eq!(pull(&node, &format!("http://127.0.0.1:{closed_port}/f"), &[]).status, 502);
    assert_eq!(pull(&node, "http://no-such-host.invalid/f", &[]).status, 502);
    assert!(node.is_empty());
}

#[test]
fn invalid_pull_orders_are_refused() {
    let node = open();
    put(&node, "/data/there", b"old").expect(201);
    let source = Peer::new(|request, socket| honest(request, socket, b"new", ""));
    let url = source.url("/f");
    let pull_status = |target: &str, fields: &[(&str, &str)]| {
        ask(&node, "COPY", target, &[&[("Source", url.as_str())], fields].concat(), &[]).status
    };
    assert_eq!(pull_status("/data/f", &[("Destination", "http://127.0.0.1:9/f")]), 400);
    assert_eq!(pull_status("/data/f", &[("Destination", "/data/g")]), 400);
    assert_eq!(pull_status("/data/f", &[("Source", url.as_str())]), 400);
    for word in ["gridsite", "oidc", "nonsense"] {
        assert_eq!(pull_status("/data/f", &[("Credential", word)]), 400, "{word}");
    }
    for streams in ["101", "-1", "x", "1.5", ""] {
        assert_eq!(pull_status("/data/f", &[("X-Number-Of-Streams", streams)]), 400, "{streams}");
    }
    assert_eq!(pull_status("/data/f", &[("Overwrite", "maybe")]), 400);
    assert_eq!(pull_status("/data/f", &[("RequireChecksumVerification", "maybe")]), 400);
    assert_eq!(pull_status("/data/there", &[("Overwrite", "F")]), 412);
    assert_eq!(pull_status("/data/", &[]), 409);
    for scheme in ["ftp", "file", "root", "gopher", "lh", "javascript"] {
        assert_eq!(pull(&node, &format!("{scheme}://127.0.0.1/f"), &[]).status, 400, "{scheme}");
    }
    for url in ["http://", "http:///etc/passwd", "http://u:p@127.0.0.1/f", "/etc/passwd", "", "http://[::1", "nonsense"]
    {
        assert_eq!(pull(&node, url, &[]).status, 400, "{url:?}");
    }
    assert_eq!(source.requests().len(), 0, "no request was sent to the source");
    assert_eq!(fs::read(node.data("there")).unwrap(), b"old");
    // With 0 streams the node chooses the number.
    assert_eq!(
        pull_status("/data/f", &[("X-Number-Of-Streams", "0"), ("Credential", "none"), ("Overwrite", "F")]),
        202
    );
    assert_eq!(fs::read(node.data("f")).unwrap(), b"new");
}

#[test]
fn a_broken_pull_is_resumed_where_it_stopped() {
    let node = open();
    let data = Arc::new(pattern(3_000_000));
    let (of_peer, sent) = (Arc::clone(&data), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&sent);
    // Each GET gets at most a megabyte, then the connection breaks.
    let source = Peer::new(move |request, socket| {
        let (from, to) = request.range(of_peer.len()).unwrap_or((0, of_peer.len()));
        if request.method == "HEAD" {
            return honest(request, socket, &of_peer, "");
        }
        let range = format!("ETag: \"one\"\r\nContent-Range: bytes {from}-{}/{}\r\n", to - 1, of_peer.len());
        let status = if request.field("range").is_some() { 206 } else { 200 };
        begin(socket, status, to - from, &range);
        let most = (to - from).min(1_000_000);
        counted.fetch_add(most, Ordering::Relaxed);
        let _ = socket.write_all(&of_peer[from..from + most]);
        most == to - from
    });
    let outcome = pull(&node, &source.url("/f"), &[]).expect(202);
    assert_eq!(outcome.last_line(), "success: Created", "{}", outcome.text());
    assert!(fs::read(node.data("f")).unwrap() == *data);
    assert!(sent.load(Ordering::Relaxed) < data.len() + 500_000, "{sent:?}");
    let ranges: Vec<_> =
        source.requests_of("GET").iter().map(|request| request.field("range").map(str::to_owned)).collect();
    assert!(ranges.len() >= 3 && ranges[0].is_none() && ranges[1..].iter().all(Option::is_some), "{ranges:?}");
}

/// HEAD is answered with this, and GET by the script.
fn source_with_head(
    size: usize,
    fields: &'static str,
    get: impl Fn(&PeerRequest, &mut TcpStream) -> bool + Send + Sync + 'static,
) -> Peer {
    Peer::new(move |request, socket| match request.method.as_str() {
        "HEAD" => begin(socket, 200, size, fields),
        _ => get(request, socket),
    })
}

#[test]
fn a_wrong_length_leaves_no_file() {
    let node = open();
    put(&node, "/data/f", b"old").expect(201);
    const RANGES: &str = "Accept-Ranges: bytes\r\n";
    let longer = source_with_head(1000, RANGES, |_, socket| answer(socket, 200, "", &[1; 2000]));
    fails(&node, &longer.url("/f"), &[], "2000 bytes where 1000");
    let shorter = source_with_head(1000, RANGES, |_, socket| answer(socket, 200, "", &[1; 500]));
    fails(&node, &shorter.url("/f"), &[], "500 bytes where 1000");
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let more_in_chunks = source_with_head(10, RANGES, move |_, socket| {
        socket.write_all(format!("{chunked}14\r\n01234567890123456789\r\n0\r\n\r\n").as_bytes()).is_ok()
    });
    fails(&node, &more_in_chunks.url("/f"), &[], "more bytes than it announced");
    let less_in_chunks = source_with_head(30, "", move |_, socket| {
        socket.write_all(format!("{chunked}14\r\n01234567890123456789\r\n0\r\n\r\n").as_bytes()).is_ok()
    });
    fails(&node, &less_in_chunks.url("/f"), &[], "closed before all bytes came");
    let open_end = source_with_head(1000, "", |_, socket| {
        let _ = socket.write_all(b"HTTP/1.1 200 OK\r\n\r\nonly this");
        false
    });
    fails(&node, &open_end.url("/f"), &[], "closed before all bytes came");
    // A source that does not know the length answers HEAD with 0.
    let empty = source_with_head(0, "", |_, socket| answer(socket, 200, "", b"not empty at all"));
    assert_eq!(pull(&node, &empty.url("/f"), &[]).expect(202).last_line(), "success: Created");
    assert_eq!(fs::read(node.data("f")).unwrap(), b"not empty at all");
    let truly = Peer::new(|request, socket| honest(request, socket, b"", "Digest: adler32=00000001\r\n"));
    assert_eq!(pull(&node, &truly.url("/f"), &[]).expect(202).last_line(), "success: Created");
    assert_eq!(fs::read(node.data("f")).unwrap(), b"");
    // The largest number: there is no space for that.
    let huge = source_with_head(usize::MAX, RANGES, |_, _| false);
    assert_eq!(pull(&node, &huge.url("/f"), &[]).status, 507);
}

/// A source that answers ranges and gives a false answer to one of them.
fn ranged(
    data: &Arc<Vec<u8>>,
    lie: impl Fn(usize, usize, &[u8], &mut TcpStream) -> bool + Send + Sync + 'static,
) -> Peer {
    let data = Arc::clone(data);
    Peer::new(move |request, socket| match request.range(data.len()) {
        Some((from, to)) if request.method == "GET" && from > 0 => lie(from, to, &data, socket),
        _ => honest(request, socket, &data, ""),
    })
}

#[test]
fn wrong_ranges_leave_no_file() {
    let node = open();
    put(&node, "/data/f", b"old").expect(201);
    let data = Arc::new(pattern(4 << 20));
    let streams = [("X-Number-Of-Streams", "4")];
    let part = |from: usize, to: usize, size: usize, tag: &str| {
        format!("ETag: \"{tag}\"\r\nContent-Range: bytes {from}-{}/{size}\r\n", to - 1)
    };
    let shifted = ranged(&data, move |from, to, data, socket| {
        answer(socket, 206, &part(from - 1, to - 1, data.len(), "one"), &data[from - 1..to - 1])
    });
    fails(&node, &shifted.url("/f"), &streams, "another range");
    let unstated = ranged(&data, |from, to, data, socket| answer(socket, 206, "", &data[from..to]));
    fails(&node, &unstated.url("/f"), &streams, "another range");
    let other_size = ranged(&data, move |from, to, data, socket| {
        answer(socket, 206, &part(from, to, data.len() + 1, "one"), &data[from..to])
    });
    fails(&node, &other_size.url("/f"), &streams, "another range");
    let ignores = ranged(&data, |_, _, data, socket| answer(socket, 200, "", data));
    fails(&node, &ignores.url("/f"), &streams, "takes no ranges");
    let changes = ranged(&data, move |from, to, data, socket| {
        answer(socket, 206, &part(from, to, data.len(), "two"), &data[from..to])
    });
    fails(&node, &changes.url("/f"), &streams, "changed at the source");
    let refuses = ranged(&data, |_, _, _, socket| answer(socket, 416, "", b"no such range here\n"));
    fails(&node, &refuses.url("/f"), &streams, "status code 416");
    let forbids = ranged(&data, |_, _, _, socket| answer(socket, 403, "", b"not you\r\nfailure: fake\n"));
    fails(&node, &forbids.url("/f"), &streams, "Permission denied");
    let honest = ranged(&data, move |from, to, data, socket| {
        answer(socket, 206, &part(from, to, data.len(), "one"), &data[from..to])
    });
    assert_eq!(pull(&node, &honest.url("/f"), &streams).expect(202).last_line(), "success: Created");
    assert!(fs::read(node.data("f")).unwrap() == *data);
}

#[test]
fn a_wrong_digest_is_a_mismatch() {
    let node = open();
    put(&node, "/data/f", b"old").expect(201);
    for digest in
        ["Digest: adler32=12345678", "Digest: md5=AAAAAAAAAAAAAAAAAAAAAA==", "Content-MD5: AAAAAAAAAAAAAAAAAAAAAA=="]
    {
        let fields = format!("{digest}\r\n");
        let source = Peer::new(move |request, socket| honest(request, socket, b"123456789", &fields));
        let outcome = pull(&node, &source.url("/f"), &[]).expect(202);
        let last = outcome.last_line().to_ascii_uppercase();
        // The text by which FTS recognises a permanent failure.
        assert!(last.starts_with("FAILURE: ") && last.contains("CHECKSUM MISMATCH"), "{last}");
        assert_eq!(fs::read(node.data("f")).unwrap(), b"old");
        assert_swept(&node);
        // The client compares by itself.
        let trusting = [("RequireChecksumVerification", "false")];
        assert_eq!(pull(&node, &source.url("/f"), &trusting).expect(202).last_line(), "success: Created");
        put(&node, "/data/f", b"old").expect(204);
    }
    let silent = Peer::new(|request, socket| honest(request, socket, b"123456789", ""));
    assert_eq!(pull(&node, &silent.url("/f"), &[("RequireChecksumVerification", "true")]).status, 412);
    // The digest of the client is compared with what arrives.
    let wrong = [("Repr-Digest", "md5=:AAAAAAAAAAAAAAAAAAAAAA==:")];
    fails(&node, &silent.url("/f"), &wrong, "checksum mismatch");
    let right = [("Repr-Digest", "md5=:JfnnlDI7RTiF9RgfG2JNCw==:"), ("RequireChecksumVerification", "true")];
    assert_eq!(pull(&node, &silent.url("/f"), &right).expect(202).last_line(), "success: Created");
    let malformed =
        Peer::new(|request, socket| honest(request, socket, b"123456789", "Digest: Adler32:be, adler32=zz\r\n"));
    assert_eq!(pull(&node, &malformed.url("/f"), &[]).expect(202).last_line(), "success: Created");
}

#[test]
fn credentials_stay_with_the_host_they_are_for() {
    let node = open();
    let secret = [
        ("TransferHeaderAuthorization", "Bearer for-the-door"),
        ("TransferHeaderX-Auth-Token", "for-the-door as well"),
        ("TransferHeaderX-Amz-Other", "who knows"),
        ("TransferHeaderUser-Agent", "goes along"),
    ];
    let authorized = |request: &PeerRequest| request.field("authorization").map(str::to_owned);
    let pool = Arc::new(Peer::new(|request, socket| honest(request, socket, b"from the pool", "")));
    let to = pool.url("/pool/f");
    // Both requests are redirected; or, as in dCache, only the GET.
    for head_too in [true, false] {
        let to = to.clone();
        let redirector = Peer::new(move |request, socket| match request.method.as_str() {
            "HEAD" if !head_too => honest(request, socket, b"from the pool", ""),
            _ => answer(socket, 307, &format!("Location: {to}\r\n"), b"over there"),
        });
        let outcome = pull(&node, &redirector.url("/f"), &secret).expect(202);
        assert_eq!(outcome.last_line(), "success: Created", "{head_too}: {}", outcome.text());
        assert_eq!(fs::read(node.data("f")).unwrap(), b"from the pool");
        assert_eq!(authorized(&redirector.requests()[0]).as_deref(), Some("Bearer for-the-door"));
        assert_eq!(redirector.requests()[0].field("x-auth-token"), Some("for-the-door as well"));
        assert_eq!(redirector.requests()[0].field("x-amz-other"), Some("who knows"));
    }
    for request in pool.requests() {
        assert_eq!(authorized(&request), None, "{request:?}");
        assert_eq!((request.field("x-auth-token"), request.field("x-amz-other")), (None, None), "{request:?}");
        assert_eq!(request.field("user-agent"), Some("goes along"));
    }
    // On the same host they are sent along.
    let own = Peer::new(|request, socket| match request.target.as_str() {
        "/f" => answer(socket, 307, "Location: /g?x=%20y\r\n", b""),
        _ => honest(request, socket, b"moved", ""),
    });
    assert_eq!(pull(&node, &own.url("/f"), &secret).expect(202).last_line(), "success: Created");
    assert!(own.requests().iter().all(|request| authorized(request).is_some()));
    assert_eq!(own.requests()[1].target, "/g?x=%20y");
    for request in own.requests() {
        assert_eq!(request.field("host").unwrap(), format!("127.0.0.1:{}", own.port));
    }
}

#[test]
fn endless_redirects_are_refused() {
    let node = open();
    let circle = Peer::new(|_, socket| answer(socket, 307, "Location: /f\r\n", b""));
    assert_eq!(pull(&node, &circle.url("/f"), &[]).status, 508);
    assert!(circle.requests().len() < 20);
    let late = source_with_head(100, "", |_, socket| answer(socket, 307, "Location: /f\r\n", b""));
    fails(&node, &late.url("/f"), &[], "circles");
    for location in [
        "",
        "Location: \r\n",
        "Location: ftp://127.0.0.1/f\r\n",
        "Location: http://u:p@127.0.0.1/f\r\n",
        "Location: http://\r\n",
    ] {
        let nowhere = Peer::new(move |_, socket| answer(socket, 307, location, b""));
        // An empty one leads back to the same URL.
        assert!(matches!(pull(&node, &nowhere.url("/f"), &[]).status, 502 | 508), "{location}");
    }
}

#[test]
fn a_client_that_hangs_up_ends_the_copy() {
    let node = open();
    put(&node, "/data/f", b"old").expect(201);
    let ended = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&ended);
    let source = Peer::new(move |request, socket| {
        let fields = "Accept-Ranges: bytes\r\n";
        if request.method == "HEAD" {
            return begin(socket, 200, 1 << 30, fields);
        }
        begin(socket, 200, 1 << 30, fields);
        while socket.write_all(&[7; 10_000]).is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
        seen.fetch_add(1, Ordering::SeqCst);
        false
    });
    let mut raw = Raw::to(&node);
    raw.request("COPY", "/data/f", &[("Source", &source.url("/f")), ("X-Number-Of-Streams", "1")], &[]);
    assert_eq!(raw.head().unwrap().status, 202);
    until("bytes come", LONG, || crate::client::unfinished(&node.data("")).len() == 1);
    drop(raw);
    until("the source's connection ends", LONG, || ended.load(Ordering::SeqCst) == 1);
    assert_swept(&node);
    assert_eq!(fs::read(node.data("f")).unwrap(), b"old");
}

#[test]
fn progress_markers_are_correct() {
    let node = open();
    let size = 300 * 1000;
    let source = Peer::new(move |request, socket| {
        begin(socket, 200, size, "");
        if request.method == "GET" {
            // Eleven seconds.
            for _ in 0..300 {
                let _ = socket.write_all(&[7; 1000]);
                std::thread::sleep(Duration::from_millis(36));
            }
        }
        true
    });
    let mut raw = Raw::to(&node);
    let began = Instant::now();
    raw.request("COPY", "/data/f", &[("Source", &source.url("/f"))], &[]);
    let head = raw.head().unwrap();
    assert_eq!((head.status, head.field("content-type")), (202, Some("text/perf-marker-stream")));
    let (mut text, mut times, mut bytes) = (String::new(), Vec::new(), Vec::new());
    while let Some(chunk) = raw.chunk().filter(|chunk| !chunk.is_empty()) {
        let chunk = String::from_utf8(chunk).unwrap();
        if chunk.starts_with("Perf Marker\n") {
            times.push(began.elapsed().as_secs_f64());
            let field =
                |name: &str| chunk.lines().find_map(|line| line.trim_start().strip_prefix(name)).unwrap().to_owned();
            bytes.push(field("Stripe Bytes Transferred: ").parse::<u64>().unwrap());
            assert_eq!(field("Total Stripe Count: "), "1");
            assert_eq!(field("Stripe Index: "), "0");
            assert_eq!(field("RemoteConnections: "), format!("tcp:127.0.0.1:{}", source.port));
            assert!(field("Timestamp: ").parse::<u64>().unwrap() > 1_700_000_000);
            assert!(chunk.contains("\nEnd\n"));
        }
        text.push_str(&chunk);
    }
    assert!(text.ends_with("success: Created\n"), "{text}");
    assert!(times.len() >= 3 && times.windows(2).all(|pair| pair[1] - pair[0] < 50.0), "{times:?}");
    // The first one is sent at once: two seconds of the eleven are more than it may report.
    assert!(bytes[0] < 50_000, "{bytes:?}");
    assert!(bytes.is_sorted() && *bytes.last().unwrap() == size as u64, "{bytes:?}");
    assert!(bytes[1] > 0 && bytes[1] < size as u64, "{bytes:?}");
}

#[test]
fn credentials_for_a_source_are_not_quoted() {
    let node = open();
    let refusal =
        |request: &PeerRequest| format!("{} is no good here\n", request.field("authorization").unwrap_or("nothing"));
    let refusing = Peer::new(move |request, socket| match request.method.as_str() {
        "HEAD" => answer(socket, 405, "", b""),
        _ => answer(socket, 403, "", refusal(request).as_bytes()),
    });
    let secret = [("TransferHeaderAuthorization", "Bearer eyJhbGciOiJub25lIn0.e30.secret")];
    let outcome = pull(&node, &refusing.url("/f"), &secret).expect(202);
    assert!(outcome.last_line().contains("… is no good here"), "{}", outcome.text());
    let audit_log = fs::read_to_string(node.state().join("audit.jsonl")).unwrap();
    for text in [outcome.text(), node.log(), audit_log] {
        assert!(!text.contains("eyJhbGciOiJub25lIn0"), "{text}");
    }
}

/// A source that does not state the length of its file: the end of the connection is the end of the file.
fn source_without_a_length(fields: &'static str) -> Peer {
    Peer::new(move |request, socket| {
        let body = if request.method == "GET" { "123456789" } else { "" };
        let _ = socket.write_all(format!("HTTP/1.1 200 OK\r\n{fields}\r\n{body}").as_bytes());
        false
    })
}

#[test]
fn without_a_length_a_digest_decides_whether_a_file_is_complete() {
    let node = open();
    put(&node, "/data/f", b"old").expect(201);
    let silent = source_without_a_length("");
    fails(&node, &silent.url("/f"), &[], "truncated");
    fails(&node, &silent.url("/f"), &[("RequireChecksumVerification", "false")], "truncated");
    let cut = source_without_a_length("Digest: adler32=12345678\r\n");
    fails(&node, &cut.url("/f"), &[], "checksum mismatch");
    let whole = source_without_a_length("Digest: adler32=091e01de\r\n");
    assert_eq!(pull(&node, &whole.url("/f"), &[]).expect(202).last_line(), "success: Created");
    put(&node, "/data/f", b"old").expect(204);
    let right = [("Repr-Digest", "md5=:JfnnlDI7RTiF9RgfG2JNCw==:")];
    assert_eq!(pull(&node, &silent.url("/f"), &right).expect(202).last_line(), "success: Created");
    assert_eq!(fs::read(node.data("f")).unwrap(), b"123456789");
}

#[test]
fn the_operator_limits_connections() {
    let setup = plain();
    fs::create_dir_all(setup.state()).unwrap();
    fs::write(setup.state().join("access.toml"), "[third_party]\nguests = true\nmax_streams = 2\n").unwrap();
    let node = setup.start();
    let data = Arc::new(pattern(8 << 20));
    let (of_peer, under_way, most) = (Arc::clone(&data), AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let seen = Arc::clone(&most);
    let source = Peer::new(move |request, socket| {
        if request.method == "GET" {
            seen.fetch_max(under_way.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            // The first request waits for a second one, since a busy machine might send them one after the other; then both wait for a
            // third.
            let began = Instant::now();
            while seen.load(Ordering::SeqCst) < 2 && began.elapsed() < Duration::from_secs(20) {
                std::thread::sleep(Duration::from_millis(5));
            }
            std::thread::sleep(Duration::from_millis(300));
            under_way.fetch_sub(1, Ordering::SeqCst);
        }
        honest(request, socket, &of_peer, "")
    });
    let outcome = pull(&node, &source.url("/f"), &[("X-Number-Of-Streams", "8")]).expect(202);
    assert_eq!(outcome.last_line(), "success: Created", "{}", outcome.text());
    assert!(fs::read(node.data("f")).unwrap() == *data);
    assert_eq!(most.load(Ordering::SeqCst), 2);
}
