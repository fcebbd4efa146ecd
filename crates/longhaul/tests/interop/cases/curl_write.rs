//! curl writes: PUT in all its forms, DELETE, and what must not be left behind.

use super::{FORTY, pattern};
use crate::case::Case;
use crate::context::CaseContext;

const CURL: &str = "curl";

pub const CASES: &[Case] = &[
    Case::new(CURL, "put-new", "PUT of a new file", "201", put_new).stock("200"),
    Case::new(CURL, "put-replace", "PUT over a file", "204", put_replace).stock("200"),
    Case::new(CURL, "put-expect", "PUT with `Expect: 100-continue`", "100, then 201", put_expect).stock("200"),
    Case::new(CURL, "put-no-expect", "PUT without it", "201", put_no_expect).stock("200"),
    Case::new(CURL, "put-chunked", "PUT, chunked", "201", put_chunked).stock("200"),
    Case::new(CURL, "put-large", "PUT of 64 MB, in clear and over TLS", "201, every byte", put_large).stock("200"),
    Case::new(CURL, "put-empty", "PUT of nothing", "201, an empty file", put_empty).stock("200"),
    Case::new(CURL, "put-content-range", "PUT with `Content-Range`", "400, the file as it was", put_content_range)
        .stock("ignores it and truncates"),
    Case::new(CURL, "put-parents", "PUT below directories that are not there", "201, they are made", put_parents)
        .stock("200"),
    Case::new(CURL, "put-directory", "PUT onto a directory", "405 or 409", put_directory),
    Case::new(CURL, "put-if-none-match", "PUT with `If-None-Match: *` over a file", "412", put_if_none_match)
        .stock("overwrites"),
    Case::new(CURL, "put-broken-off", "PUT that ends before its length", "no file, nothing unfinished", put_broken_off)
        .stock("leaves a part"),
    Case::new(CURL, "put-atomic", "PUT over a file, broken off", "the file as it was", put_atomic)
        .stock("leaves a part"),
    Case::new(CURL, "put-digest", "PUT with a `Digest` that is not the body's", "4xx, no file", put_digest)
        .stock("ignores it"),
    Case::new(CURL, "delete", "DELETE of a file", "204", delete).stock("200"),
    Case::new(CURL, "delete-missing", "DELETE of nothing", "404", delete_missing),
    Case::new(
        CURL,
        "delete-full",
        "DELETE of a directory that is not empty",
        "204, with all that is in it",
        delete_full,
    )
    .stock("500"),
    Case::new(CURL, "delete-empty", "DELETE of an empty directory", "204", delete_empty).stock("200"),
    Case::new(CURL, "delete-export", "DELETE of an export", "403 or 405", delete_export).stock("500"),
];

fn put_new(context: &CaseContext) {
    let (dir, file) = (context.open(), context.write("f", FORTY));
    context.curl(&["-T", &file, &dir.http("f")]).expect_status(201);
    assert_eq!(dir.get("f"), FORTY);
    context.curl(&["-T", &file, &dir.https("g")]).expect_status(201);
    assert_eq!(dir.get("g"), FORTY);
    assert_eq!(dir.names(), ["f", "g"]);
}

fn put_replace(context: &CaseContext) {
    let (dir, file) = (context.open(), context.write("f", &FORTY[..7]));
    dir.put("f", FORTY);
    context.curl(&["-T", &file, &dir.http("f")]).expect_status(204);
    assert_eq!(dir.get("f"), &FORTY[..7]);
    assert_eq!(dir.names(), ["f"]);
}

fn put_expect(context: &CaseContext) {
    let (dir, file) = (context.open(), context.write("f", &pattern(2_000_000)));
    let words = ["-v", "-H", "Expect: 100-continue", "--expect100-timeout", "60", "-T", &file];
    let reply = context.curl(&[&words[..], &[&dir.http("f")]].concat()).expect_status(201);
    assert!(reply.verbose.contains("100 Continue"), "{}", reply.verbose);
    assert!(dir.get("f") == pattern(2_000_000));
}

fn put_no_expect(context: &CaseContext) {
    let (dir, file) = (context.open(), context.write("f", &pattern(2_000_000)));
    context.curl(&["-H", "Expect:", "-T", &file, &dir.http("f")]).expect_status(201);
    assert!(dir.get("f") == pattern(2_000_000));
}

fn put_chunked(context: &CaseContext) {
    let (dir, file) = (context.open(), context.write("f", &pattern(3_000_001)));
    context.curl(&["-H", "Transfer-Encoding: chunked", "-T", &file, &dir.http("f")]).expect_status(201);
    assert!(dir.get("f") == pattern(3_000_001));
    context.curl(&["-H", "Transfer-Encoding: chunked", "-T", &file, &dir.https("g")]).expect_status(201);
    assert!(dir.get("g") == pattern(3_000_001));
}

fn put_large(context: &CaseContext) {
    let (dir, bytes) = (context.open(), pattern(64_000_000));
    let file = context.write("f", &bytes);
    context.curl(&["-T", &file, &dir.http("f")]).expect_status(201);
    assert!(dir.get("f") == bytes);
    context.curl(&["-T", &file, &dir.https("g")]).expect_status(201);
    assert!(dir.get("g") == bytes);
}

fn put_empty(context: &CaseContext) {
    let (dir, file) = (context.open(), context.write("f", b""));
    context.curl(&["-T", &file, &dir.http("f")]).expect_status(201);
    assert_eq!(dir.get("f"), b"");
}

fn put_content_range(context: &CaseContext) {
    let (dir, file) = (context.open(), context.write("f", &FORTY[..5]));
    dir.put("f", FORTY);
    context.curl(&["-H", "Content-Range: bytes 0-4/40", "-T", &file, &dir.http("f")]).expect_status(400);
    assert_eq!(dir.get("f"), FORTY);
}

fn put_parents(context: &CaseContext) {
    let (dir, file) = (context.open(), context.write("f", FORTY));
    context.curl(&["-T", &file, &dir.http("a/b/c/f")]).expect_status(201);
    assert_eq!(dir.get("a/b/c/f"), FORTY);
}

fn put_directory(context: &CaseContext) {
    let (dir, file) = (context.open(), context.write("f", FORTY));
    dir.make_dir("d");
    context.curl(&["-T", &file, &dir.http("d")]).expect_one_of(&[405, 409]);
    assert!(dir.disk("d").is_dir());
}

fn put_if_none_match(context: &CaseContext) {
    let (dir, file) = (context.open(), context.write("f", &FORTY[1..]));
    context.curl(&["-H", "If-None-Match: *", "-T", &file, &dir.http("f")]).expect_status(201);
    context.curl(&["-H", "If-None-Match: *", "-T", &file, &dir.http("f")]).expect_status(412);
    assert_eq!(dir.get("f"), &FORTY[1..]);
}

/// A PUT whose client disconnects after a part of the announced length.
fn broken_off(context: &CaseContext, url: &str) {
    let file = context.write("part", &pattern(1_000_000));
    // The length is wrong, so curl waits for the answer until its time is over.
    let words = ["-m", "2", "-H", "Content-Length: 5000000", "-H", "Expect:", "-T", &file, url];
    context.run(&[&["curl", "-sS"], &words[..]].concat()).expect_failure();
}

fn put_broken_off(context: &CaseContext) {
    let dir = context.open();
    broken_off(context, &dir.http("f"));
    crate::wait::until("nothing is left of it", crate::wait::LONG, || dir.names().is_empty());
}

fn put_atomic(context: &CaseContext) {
    let dir = context.open();
    dir.put("f", FORTY);
    broken_off(context, &dir.http("f"));
    crate::wait::until("only the old file is there", crate::wait::LONG, || dir.names() == ["f"]);
    assert_eq!(dir.get("f"), FORTY);
}

fn put_digest(context: &CaseContext) {
    let (dir, file) = (context.open(), context.write("f", FORTY));
    let reply = context.curl(&["-H", "Digest: adler32=00000001", "-T", &file, &dir.http("f")]);
    assert!((400..500).contains(&reply.status), "{reply:?}");
    assert!(dir.names().is_empty(), "{:?}", dir.names());
}

fn delete(context: &CaseContext) {
    let dir = context.open();
    dir.put("f", FORTY);
    context.curl(&["-X", "DELETE", &dir.http("f")]).expect_status(204);
    assert!(!dir.has("f"));
}

fn delete_missing(context: &CaseContext) {
    context.curl(&["-X", "DELETE", &context.open().http("f")]).expect_status(404);
}

fn delete_full(context: &CaseContext) {
    let dir = context.open();
    dir.put("d/e/f", FORTY);
    context.curl(&["-X", "DELETE", &dir.http("d")]).expect_status(204);
    assert!(!dir.has("d"));
}

fn delete_empty(context: &CaseContext) {
    let dir = context.open();
    dir.make_dir("d");
    context.curl(&["-X", "DELETE", &dir.http("d/")]).expect_status(204);
    assert!(!dir.has("d"));
}

fn delete_export(context: &CaseContext) {
    let dir = context.open();
    let url = format!("http://{}/pub/", dir.address());
    context.curl(&["-X", "DELETE", &url]).expect_one_of(&[403, 405]);
    assert!(dir.server().files.join("pub").is_dir());
}
