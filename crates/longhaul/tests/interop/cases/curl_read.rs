//! curl reads: GET, HEAD, ranges, conditions, listings, connections.

use super::{FORTY, pattern};
use crate::case::Case;
use crate::context::CaseContext;

const CURL: &str = "curl";

pub const CASES: &[Case] = &[
    Case::new(CURL, "get", "GET", "200, Content-Length, ETag, Last-Modified, Accept-Ranges", get)
        .stock("no ETag, Last-Modified, Accept-Ranges"),
    Case::new(CURL, "get-tls", "GET over TLS", "200", get_tls),
    Case::new(CURL, "get-large", "GET of 64 MB, in clear and over TLS", "200, every byte", get_large),
    Case::new(CURL, "get-empty", "GET of an empty file", "200, Content-Length: 0", get_empty),
    Case::new(CURL, "get-missing", "GET of a file that does not exist", "404", get_missing),
    Case::new(CURL, "get-odd-names", "GET of names with blanks, `%`, `+`, `#`, `?`, umlauts", "200", get_odd_names)
        .stock("takes `%3F` for a query"),
    Case::new(CURL, "get-outside", "GET with `..` towards the outside of the export", "400 or 404", get_outside),
    Case::new(CURL, "head", "HEAD", "200 with the length and no body", head),
    Case::new(CURL, "range", "GET, `Range: bytes=5-9`", "206, Content-Range", range),
    Case::new(CURL, "range-suffix", "GET, `Range: bytes=-5`", "206, the last five", range_suffix).stock("200, all"),
    Case::new(CURL, "range-open", "GET, `Range: bytes=35-`", "206, from there on", range_open)
        .stock("206 with an impossible Content-Range"),
    Case::new(CURL, "range-many", "GET, `Range: bytes=0-4,10-14`", "206, multipart/byteranges", range_many),
    Case::new(CURL, "range-beyond", "GET, `Range: bytes=100-200` of 40", "416, `bytes */40`", range_beyond)
        .stock("206 and no body"),
    Case::new(CURL, "range-nonsense", "GET, `Range: lines=1-2`", "200, all", range_nonsense).stock("206"),
    Case::new(
        CURL,
        "if-none-match",
        "GET, `If-None-Match` with the file's ETag",
        "304; 200 with another",
        if_none_match,
    )
    .stock("no ETag"),
    Case::new(CURL, "if-range", "GET, `Range` and `If-Range` with another ETag", "200, all", if_range).stock("206"),
    Case::new(CURL, "http2", "GET and HEAD over HTTP/2 (TLS)", "200, `HTTP/2`", http2).stock("HTTP/1.1 only"),
    Case::new(CURL, "keep-alive", "two GETs", "one connection", keep_alive),
    Case::new(
        CURL,
        "keep-alive-404",
        "GET of a file that does not exist, and another GET",
        "one connection",
        keep_alive_404,
    )
    .stock("closes after 404"),
    Case::new(CURL, "http10", "GET with HTTP/1.0", "200, and the connection ends", http10),
    Case::new(CURL, "listing", "GET of a directory, `Accept: text/html`", "200, text/html with links", listing)
        .stock("no Content-Type"),
    Case::new(CURL, "read-only", "PUT into a read-only export", "403", read_only).stock("500"),
    Case::new(CURL, "resume", "`curl -C -` on half a file", "the whole file", resume)
        .stock("206 with an impossible Content-Range"),
    Case::new(CURL, "scitag", "GET with `SciTag: 452`", "a firefly for experiment 7, activity 4", scitag)
        .stock("ignores the header"),
];

fn get(context: &CaseContext) {
    let dir = context.open();
    dir.put("f", FORTY);
    let reply =
        context.curl(&[&dir.http("f")]).expect_status(200).expect_body(FORTY).expect_header("content-length", "40");
    let reply = reply
        .expect_header("accept-ranges", "bytes")
        .expect_header_part("last-modified", "GMT")
        .expect_header_part("etag", "\"");
    assert_eq!(reply.version, "HTTP/1.1");
}

fn get_tls(context: &CaseContext) {
    let dir = context.open();
    dir.put("f", FORTY);
    context.curl(&[&dir.https("f")]).expect_status(200).expect_body(FORTY).expect_header("content-length", "40");
}

fn get_large(context: &CaseContext) {
    let (dir, bytes) = (context.open(), pattern(64_000_000));
    dir.put("f", &bytes);
    context.curl(&[&dir.http("f")]).expect_status(200).expect_body(&bytes);
    context.curl(&[&dir.https("f")]).expect_status(200).expect_body(&bytes);
}

fn get_empty(context: &CaseContext) {
    let dir = context.open();
    dir.put("f", b"");
    context.curl(&[&dir.http("f")]).expect_status(200).expect_body(b"").expect_header("content-length", "0");
}

fn get_missing(context: &CaseContext) {
    let dir = context.open();
    context.curl(&[&dir.http("f")]).expect_status(404);
    context.curl(&[&dir.http("d/f")]).expect_status(404);
}

fn get_odd_names(context: &CaseContext) {
    let dir = context.open();
    for (name, encoded) in [
        ("a b", "a%20b"),
        ("50%", "50%25"),
        ("a+b", "a+b"),
        ("a#b", "a%23b"),
        ("a?b", "a%3Fb"),
        ("grün", "gr%C3%BCn"),
        ("a&b;c", "a%26b%3Bc"),
    ] {
        dir.put(name, name.as_bytes());
        context.curl(&[&dir.http(encoded)]).expect_status(200).expect_body(name.as_bytes());
    }
}

fn get_outside(context: &CaseContext) {
    let dir = context.open();
    std::fs::write(dir.server().files.join("secret"), b"secret").unwrap();
    for path in ["../../secret", "%2e%2e/%2e%2e/secret", "..%2f..%2fsecret", "../../data/../secret"] {
        let url = dir.http(path);
        context.curl(&["--path-as-is", &url]).expect_one_of(&[400, 403, 404]).expect_without("secret\n");
    }
}

fn head(context: &CaseContext) {
    let dir = context.open();
    dir.put("f", FORTY);
    context.curl(&["-I", &dir.http("f")]).expect_status(200).expect_header("content-length", "40");
    context.curl(&["-I", &dir.http("missing")]).expect_status(404);
}

fn ranged(context: &CaseContext, range: &str) -> crate::clients::Reply {
    let dir = context.open();
    dir.put("f", FORTY);
    context.curl(&["-H", &format!("Range: {range}"), &dir.http("f")])
}

fn range(context: &CaseContext) {
    ranged(context, "bytes=5-9")
        .expect_status(206)
        .expect_body(&FORTY[5..10])
        .expect_header("content-range", "bytes 5-9/40");
}

fn range_suffix(context: &CaseContext) {
    ranged(context, "bytes=-5")
        .expect_status(206)
        .expect_body(&FORTY[35..])
        .expect_header("content-range", "bytes 35-39/40");
}

fn range_open(context: &CaseContext) {
    ranged(context, "bytes=35-")
        .expect_status(206)
        .expect_body(&FORTY[35..])
        .expect_header("content-range", "bytes 35-39/40");
    // An end beyond the end is cut (RFC 9110 14.1.2).
    ranged(context, "bytes=35-1000")
        .expect_status(206)
        .expect_body(&FORTY[35..])
        .expect_header("content-range", "bytes 35-39/40");
}

fn range_many(context: &CaseContext) {
    let reply = ranged(context, "bytes=0-4,10-14")
        .expect_status(206)
        .expect_header_part("content-type", "multipart/byteranges");
    let text = reply.text().to_lowercase();
    for part in ["content-range: bytes 0-4/40", "content-range: bytes 10-14/40", "01234", "abcde"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

fn range_beyond(context: &CaseContext) {
    ranged(context, "bytes=100-200").expect_status(416).expect_header("content-range", "bytes */40");
}

fn range_nonsense(context: &CaseContext) {
    ranged(context, "lines=1-2").expect_status(200).expect_body(FORTY);
    ranged(context, "bytes=9-5").expect_status(200).expect_body(FORTY);
}

fn if_none_match(context: &CaseContext) {
    let dir = context.open();
    dir.put("f", FORTY);
    let url = dir.http("f");
    let tag = context.curl(&[&url]).expect_status(200).header("etag").expect("an ETag");
    context.curl(&["-H", &format!("If-None-Match: {tag}"), &url]).expect_status(304).expect_body(b"");
    context.curl(&["-H", "If-None-Match: \"another\"", &url]).expect_status(200).expect_body(FORTY);
    dir.put("f", &FORTY[1..]);
    context.curl(&["-H", &format!("If-None-Match: {tag}"), &url]).expect_status(200).expect_body(&FORTY[1..]);
}

fn if_range(context: &CaseContext) {
    let dir = context.open();
    dir.put("f", FORTY);
    let words = ["-H", "Range: bytes=5-9", "-H", "If-Range: \"another\""];
    context.curl(&[&words[..], &[&dir.http("f")]].concat()).expect_status(200).expect_body(FORTY);
}

fn http2(context: &CaseContext) {
    let (dir, bytes) = (context.open(), pattern(3_000_000));
    dir.put("f", &bytes);
    let reply = context.curl(&["--http2", &dir.https("f")]).expect_status(200).expect_body(&bytes);
    assert_eq!(reply.version, "HTTP/2");
    let reply =
        context.curl(&["--http2", "-I", &dir.https("f")]).expect_status(200).expect_header("content-length", "3000000");
    assert_eq!(reply.version, "HTTP/2");
    let file = context.write("up", &bytes);
    context.curl(&["--http2", "-T", &file, &dir.https("up")]).expect_status(201);
    assert!(dir.get("up") == bytes);
}

/// Both in one run of curl; whether the second found the first one's connection.
fn twice(context: &CaseContext, first: &str, second: &str) {
    let words = ["-v", "-o", "/dev/null", first, "-o", "/dev/null", second];
    let seen = context.run(&[&["curl", "-sS"], &words[..]].concat()).expect_success();
    seen.expect_text("left intact").expect_text("Re-using existing connection");
}

fn keep_alive(context: &CaseContext) {
    let dir = context.open();
    dir.put("f", FORTY);
    twice(context, &dir.http("f"), &dir.http("f"));
}

fn keep_alive_404(context: &CaseContext) {
    let dir = context.open();
    dir.put("f", FORTY);
    twice(context, &dir.http("missing"), &dir.http("f"));
}

fn http10(context: &CaseContext) {
    let dir = context.open();
    dir.put("f", FORTY);
    context.curl(&["--http1.0", &dir.http("f")]).expect_status(200).expect_body(FORTY);
}

fn listing(context: &CaseContext) {
    let dir = context.open();
    dir.put("a b", FORTY);
    dir.put("d/f", FORTY);
    let reply = context
        .curl(&["-H", "Accept: text/html", &dir.http("")])
        .expect_status(200)
        .expect_header_part("content-type", "text/html");
    assert!(reply.text().contains("a%20b") && reply.text().contains("d/"), "{}", reply.text());
}

fn read_only(context: &CaseContext) {
    let (dir, file) = (context.open(), context.write("f", FORTY));
    let url = format!("http://{}/pub/f", dir.address());
    context.curl(&["-T", &file, &url]).expect_status(403);
    std::fs::write(dir.server().files.join("pub/f"), FORTY).unwrap();
    context.curl(&[&url]).expect_status(200).expect_body(FORTY);
    context.curl(&["-X", "DELETE", &url]).expect_status(403);
}

fn resume(context: &CaseContext) {
    let (dir, bytes) = (context.open(), pattern(1_000_000));
    dir.put("f", &bytes);
    let file = context.write("half", &bytes[..400_000]);
    context.run(&["curl", "-sS", "-f", "-C", "-", "-o", &file, &dir.http("f")]).expect_success();
    assert!(std::fs::read(&file).unwrap() == bytes);
}

fn scitag(context: &CaseContext) {
    let dir = context.open();
    dir.put("f", &pattern(1_000_000));
    // 7 << 6 | 4 (scitags.org).
    context.curl(&["-H", "SciTag: 452", &dir.http("f")]).expect_status(200);
    let seen = || context.test_bed.collector.of_activity(4);
    crate::wait::until("a firefly arrives", crate::wait::LONG, || !seen().is_empty());
    let firefly = seen().remove(0);
    assert_eq!((&firefly["version"], &firefly["context"]["experiment-id"]), (&1.into(), &7.into()), "{firefly}");
    assert_eq!(firefly["flow-id"]["protocol"], "tcp", "{firefly}");
}
