//! curl writes: PUT in all its forms, DELETE, and what must not be left behind.

use super::{FORTY, pattern};
use crate::case::Case;
use crate::scene::CaseContext;

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

fn put_new(scene: &CaseContext) {
    let (room, file) = (scene.open(), scene.write("f", FORTY));
    scene.curl(&["-T", &file, &room.http("f")]).is(201);
    assert_eq!(room.get("f"), FORTY);
    scene.curl(&["-T", &file, &room.https("g")]).is(201);
    assert_eq!(room.get("g"), FORTY);
    assert_eq!(room.names(), ["f", "g"]);
}

fn put_replace(scene: &CaseContext) {
    let (room, file) = (scene.open(), scene.write("f", &FORTY[..7]));
    room.put("f", FORTY);
    scene.curl(&["-T", &file, &room.http("f")]).is(204);
    assert_eq!(room.get("f"), &FORTY[..7]);
    assert_eq!(room.names(), ["f"]);
}

fn put_expect(scene: &CaseContext) {
    let (room, file) = (scene.open(), scene.write("f", &pattern(2_000_000)));
    let words = ["-v", "-H", "Expect: 100-continue", "--expect100-timeout", "60", "-T", &file];
    let reply = scene.curl(&[&words[..], &[&room.http("f")]].concat()).is(201);
    assert!(reply.verbose.contains("100 Continue"), "{}", reply.verbose);
    assert!(room.get("f") == pattern(2_000_000));
}

fn put_no_expect(scene: &CaseContext) {
    let (room, file) = (scene.open(), scene.write("f", &pattern(2_000_000)));
    scene.curl(&["-H", "Expect:", "-T", &file, &room.http("f")]).is(201);
    assert!(room.get("f") == pattern(2_000_000));
}

fn put_chunked(scene: &CaseContext) {
    let (room, file) = (scene.open(), scene.write("f", &pattern(3_000_001)));
    scene.curl(&["-H", "Transfer-Encoding: chunked", "-T", &file, &room.http("f")]).is(201);
    assert!(room.get("f") == pattern(3_000_001));
    scene.curl(&["-H", "Transfer-Encoding: chunked", "-T", &file, &room.https("g")]).is(201);
    assert!(room.get("g") == pattern(3_000_001));
}

fn put_large(scene: &CaseContext) {
    let (room, bytes) = (scene.open(), pattern(64_000_000));
    let file = scene.write("f", &bytes);
    scene.curl(&["-T", &file, &room.http("f")]).is(201);
    assert!(room.get("f") == bytes);
    scene.curl(&["-T", &file, &room.https("g")]).is(201);
    assert!(room.get("g") == bytes);
}

fn put_empty(scene: &CaseContext) {
    let (room, file) = (scene.open(), scene.write("f", b""));
    scene.curl(&["-T", &file, &room.http("f")]).is(201);
    assert_eq!(room.get("f"), b"");
}

fn put_content_range(scene: &CaseContext) {
    let (room, file) = (scene.open(), scene.write("f", &FORTY[..5]));
    room.put("f", FORTY);
    scene.curl(&["-H", "Content-Range: bytes 0-4/40", "-T", &file, &room.http("f")]).is(400);
    assert_eq!(room.get("f"), FORTY);
}

fn put_parents(scene: &CaseContext) {
    let (room, file) = (scene.open(), scene.write("f", FORTY));
    scene.curl(&["-T", &file, &room.http("a/b/c/f")]).is(201);
    assert_eq!(room.get("a/b/c/f"), FORTY);
}

fn put_directory(scene: &CaseContext) {
    let (room, file) = (scene.open(), scene.write("f", FORTY));
    room.make_dir("d");
    scene.curl(&["-T", &file, &room.http("d")]).answers_one_of(&[405, 409]);
    assert!(room.disk("d").is_dir());
}

fn put_if_none_match(scene: &CaseContext) {
    let (room, file) = (scene.open(), scene.write("f", &FORTY[1..]));
    scene.curl(&["-H", "If-None-Match: *", "-T", &file, &room.http("f")]).is(201);
    scene.curl(&["-H", "If-None-Match: *", "-T", &file, &room.http("f")]).is(412);
    assert_eq!(room.get("f"), &FORTY[1..]);
}

/// A PUT whose client goes after a part of what it promised.
fn broken_off(scene: &CaseContext, url: &str) {
    let file = scene.write("part", &pattern(1_000_000));
    // The length is a lie, so curl waits for the answer until its time is over.
    let words = ["-m", "2", "-H", "Content-Length: 5000000", "-H", "Expect:", "-T", &file, url];
    scene.run(&[&["curl", "-sS"], &words[..]].concat()).badly();
}

fn put_broken_off(scene: &CaseContext) {
    let room = scene.open();
    broken_off(scene, &room.http("f"));
    crate::wait::until("nothing is left of it", crate::wait::LONG, || room.names().is_empty());
}

fn put_atomic(scene: &CaseContext) {
    let room = scene.open();
    room.put("f", FORTY);
    broken_off(scene, &room.http("f"));
    crate::wait::until("only the old file is there", crate::wait::LONG, || room.names() == ["f"]);
    assert_eq!(room.get("f"), FORTY);
}

fn put_digest(scene: &CaseContext) {
    let (room, file) = (scene.open(), scene.write("f", FORTY));
    let reply = scene.curl(&["-H", "Digest: adler32=00000001", "-T", &file, &room.http("f")]);
    assert!((400..500).contains(&reply.status), "{reply:?}");
    assert!(room.names().is_empty(), "{:?}", room.names());
}

fn delete(scene: &CaseContext) {
    let room = scene.open();
    room.put("f", FORTY);
    scene.curl(&["-X", "DELETE", &room.http("f")]).is(204);
    assert!(!room.has("f"));
}

fn delete_missing(scene: &CaseContext) {
    scene.curl(&["-X", "DELETE", &scene.open().http("f")]).is(404);
}

fn delete_full(scene: &CaseContext) {
    let room = scene.open();
    room.put("d/e/f", FORTY);
    scene.curl(&["-X", "DELETE", &room.http("d")]).is(204);
    assert!(!room.has("d"));
}

fn delete_empty(scene: &CaseContext) {
    let room = scene.open();
    room.make_dir("d");
    scene.curl(&["-X", "DELETE", &room.http("d/")]).is(204);
    assert!(!room.has("d"));
}

fn delete_export(scene: &CaseContext) {
    let room = scene.open();
    let url = format!("http://{}/pub/", room.address());
    scene.curl(&["-X", "DELETE", &url]).answers_one_of(&[403, 405]);
    assert!(room.server().files.join("pub").is_dir());
}
