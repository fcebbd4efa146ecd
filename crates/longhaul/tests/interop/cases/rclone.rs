//! rclone: its WebDAV and its HTTP back end.

use super::{FORTY, pattern};
use crate::case::Case;
use crate::context::CaseContext;

const RCLONE: &str = "rclone";

pub const CASES: &[Case] = &[
    Case::new(RCLONE, "ls", "ls, lsd (webdav)", "names and sizes", ls),
    Case::new(RCLONE, "copy-up", "copy of a tree to us (webdav)", "every file", copy_up),
    Case::new(RCLONE, "copy-down", "copy of a tree from us (webdav)", "every file", copy_down),
    Case::new(RCLONE, "check", "check, --download (webdav)", "no differences; those that there are", check),
    Case::new(RCLONE, "sync", "sync after changes, in both ways (webdav)", "the same tree; what is gone, goes", sync),
    Case::new(RCLONE, "tls", "copy over TLS with `--ca-cert` (webdav)", "every file", tls),
    Case::new(RCLONE, "move", "moveto, deletefile, delete, rmdirs, purge (webdav)", "moved, deleted", moves),
    Case::new(RCLONE, "token", "copy with `bearer_token` (webdav)", "the file", token),
    Case::new(RCLONE, "key", "copy with an access key as `pass` (webdav)", "the file", key).stock("has no keys"),
    Case::new(RCLONE, "about", "about (webdav)", "what is free, and no made-up use", about),
    Case::new(RCLONE, "http-ls", "ls (http): reads the listing in HTML", "names", http_ls)
        .stock("a listing without Content-Type"),
    Case::new(RCLONE, "http-copy", "copy of a tree (http)", "every file", http_copy)
        .stock("a listing without Content-Type"),
];

/// The first words of every run: no retries, and a short time limit for connections.
const COMMAND: [&str; 4] = ["rclone", "--retries=1", "--low-level-retries=1", "--contimeout=10s"];

fn remote(url: &str) -> String {
    format!(":webdav,url='{url}':")
}

fn tree(context: &CaseContext, below: &str) -> String {
    for name in ["a", "b c", "d/e", "d/g/h"] {
        context.write(&format!("{below}/{name}"), format!("this is {name}").as_bytes());
    }
    context.write(&format!("{below}/large"), &pattern(3_000_000));
    context.path(below).display().to_string()
}

fn rclone(context: &CaseContext, words: &[&str]) -> crate::clients::ClientOutput {
    context.run(&[&COMMAND[..], words].concat())
}

fn assert_same(one: &std::path::Path, other: &std::path::Path) {
    let output = std::process::Command::new("diff").arg("-r").arg(one).arg(other).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

fn ls(context: &CaseContext) {
    let dir = context.open();
    dir.put("f", FORTY);
    dir.put("d/g", &FORTY[..4]);
    let seen = rclone(context, &["ls", &remote(&dir.http(""))]).expect_success();
    let mut lines = seen.lines();
    lines.sort_unstable();
    assert_eq!(lines, ["4 d/g", "40 f"], "{seen:?}");
    rclone(context, &["lsd", &remote(&dir.http(""))]).expect_success().expect_text(" d");
}

fn copy_up(context: &CaseContext) {
    let (dir, tree) = (context.open(), tree(context, "t"));
    rclone(context, &["copy", &tree, &format!("{}t", remote(&dir.http("")))]).expect_success();
    assert_same(&context.path("t"), &dir.disk("t"));
}

fn copy_down(context: &CaseContext) {
    let (dir, tree) = (context.open(), tree(context, "t"));
    let there = format!("{}t", remote(&dir.http("")));
    rclone(context, &["copy", &tree, &there]).expect_success();
    rclone(context, &["copy", &there, context.path("back").to_str().unwrap()]).expect_success();
    assert_same(&context.path("t"), &context.path("back"));
}

fn check(context: &CaseContext) {
    let (dir, tree) = (context.open(), tree(context, "t"));
    let there = format!("{}t", remote(&dir.http("")));
    rclone(context, &["copy", &tree, &there]).expect_success();
    rclone(context, &["check", &tree, &there]).expect_success().expect_text("0 differences found");
    rclone(context, &["check", "--download", &tree, &there]).expect_success().expect_text("0 differences found");
    dir.put("t/a", b"this is b");
    rclone(context, &["check", "--download", &tree, &there]).expect_failure().expect_text("1 differences found");
}

fn sync(context: &CaseContext) {
    let (dir, tree) = (context.open(), tree(context, "t"));
    let there = format!("{}t", remote(&dir.http("")));
    rclone(context, &["sync", &tree, &there]).expect_success();
    std::fs::remove_file(context.path("t/d/e")).unwrap();
    context.write("t/new", b"new");
    context.write("t/a", b"of another length");
    rclone(context, &["sync", &tree, &there]).expect_success();
    assert_same(&context.path("t"), &dir.disk("t"));
    dir.put("t/more", b"more");
    rclone(context, &["sync", &there, &tree]).expect_success();
    assert_same(&context.path("t"), &dir.disk("t"));
}

fn tls(context: &CaseContext) {
    let (dir, tree, ca) = (context.open(), tree(context, "t"), context.test_bed.pki.ca.display().to_string());
    let there = format!("{}t", remote(&dir.https("")));
    rclone(context, &["--ca-cert", &ca, "copy", &tree, &there]).expect_success();
    assert_same(&context.path("t"), &dir.disk("t"));
}

fn moves(context: &CaseContext) {
    let dir = context.open();
    dir.put("f", FORTY);
    dir.put("d/g", FORTY);
    let at = |name: &str| format!("{}{name}", remote(&dir.http("")));
    rclone(context, &["moveto", &at("f"), &at("h")]).expect_success();
    assert_eq!(dir.names(), ["d", "h"]);
    rclone(context, &["deletefile", &at("h")]).expect_success();
    dir.put("p/q/r", FORTY);
    rclone(context, &["purge", &at("p")]).expect_success();
    rclone(context, &["delete", &at("d")]).expect_success();
    rclone(context, &["rmdirs", &at("d")]).expect_success();
    assert!(dir.names().is_empty(), "{:?}", dir.names());
}

fn about(context: &CaseContext) {
    let dir = context.open();
    rclone(context, &["about", &remote(&dir.http(""))]).expect_success().expect_text("Free:").expect_without("Used:");
}

fn token(context: &CaseContext) {
    let (dir, ca) = (context.closed(), context.test_bed.pki.ca.display().to_string());
    let token = context.token(&["read", "modify"]);
    let file = context.write("f", FORTY);
    let words = ["--ca-cert", &ca, "--webdav-bearer-token", &token, "copy", &file, &remote(&dir.https(""))];
    rclone(context, &words).expect_success();
    assert_eq!(dir.get("f"), FORTY);
}

fn key(context: &CaseContext) {
    let (dir, ca) = (context.closed(), context.test_bed.pki.ca.display().to_string());
    let key = dir.server().grant(&["--export", "data", "--write"]).expect("a node of ours");
    let obscured = rclone(context, &["obscure", &key]).expect_success().out.trim().to_owned();
    let file = context.write("f", FORTY);
    let who = ["--webdav-user", "anybody", "--webdav-pass", &obscured];
    let there = remote(&dir.https(""));
    rclone(context, &[&["--ca-cert", &ca], &who[..], &["copy", &file, &there]].concat()).expect_success();
    assert_eq!(dir.get("f"), FORTY);
}

fn http_remote(url: &str) -> String {
    format!(":http,url='{url}':")
}

fn http_ls(context: &CaseContext) {
    let dir = context.open();
    dir.put("f", FORTY);
    dir.put("a b", &FORTY[..4]);
    dir.put("d/g", &FORTY[..5]);
    let seen = rclone(context, &["ls", &http_remote(&dir.http(""))]).expect_success();
    let mut lines = seen.lines();
    lines.sort_unstable();
    assert_eq!(lines, ["4 a b", "40 f", "5 d/g"], "{seen:?}");
}

fn http_copy(context: &CaseContext) {
    let dir = context.open();
    dir.put("t/a", FORTY);
    dir.put("t/d/b c", &pattern(2_000_000));
    let from = http_remote(&dir.http("t/"));
    rclone(context, &["copy", &from, context.path("back").to_str().unwrap()]).expect_success();
    assert_same(&dir.disk("t"), &context.path("back"));
}
