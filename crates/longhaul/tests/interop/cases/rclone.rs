//! rclone: its WebDAV and its HTTP back end.

use super::{FORTY, pattern};
use crate::case::Case;
use crate::scene::CaseContext;

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

/// The words that every run has: no waiting, no second try.
const CALM: [&str; 4] = ["rclone", "--retries=1", "--low-level-retries=1", "--contimeout=10s"];

fn remote(url: &str) -> String {
    format!(":webdav,url='{url}':")
}

fn tree(scene: &CaseContext, below: &str) -> String {
    for name in ["a", "b c", "d/e", "d/g/h"] {
        scene.write(&format!("{below}/{name}"), format!("this is {name}").as_bytes());
    }
    scene.write(&format!("{below}/large"), &pattern(3_000_000));
    scene.path(below).display().to_string()
}

fn rclone(scene: &CaseContext, words: &[&str]) -> crate::clients::ClientOutput {
    scene.run(&[&CALM[..], words].concat())
}

fn same(one: &std::path::Path, other: &std::path::Path) {
    let output = std::process::Command::new("diff").arg("-r").arg(one).arg(other).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

fn ls(scene: &CaseContext) {
    let room = scene.open();
    room.put("f", FORTY);
    room.put("d/g", &FORTY[..4]);
    let seen = rclone(scene, &["ls", &remote(&room.http(""))]).well();
    let mut lines = seen.lines();
    lines.sort_unstable();
    assert_eq!(lines, ["4 d/g", "40 f"], "{seen:?}");
    rclone(scene, &["lsd", &remote(&room.http(""))]).well().says(" d");
}

fn copy_up(scene: &CaseContext) {
    let (room, tree) = (scene.open(), tree(scene, "t"));
    rclone(scene, &["copy", &tree, &format!("{}t", remote(&room.http("")))]).well();
    same(&scene.path("t"), &room.disk("t"));
}

fn copy_down(scene: &CaseContext) {
    let (room, tree) = (scene.open(), tree(scene, "t"));
    let there = format!("{}t", remote(&room.http("")));
    rclone(scene, &["copy", &tree, &there]).well();
    rclone(scene, &["copy", &there, scene.path("back").to_str().unwrap()]).well();
    same(&scene.path("t"), &scene.path("back"));
}

fn check(scene: &CaseContext) {
    let (room, tree) = (scene.open(), tree(scene, "t"));
    let there = format!("{}t", remote(&room.http("")));
    rclone(scene, &["copy", &tree, &there]).well();
    rclone(scene, &["check", &tree, &there]).well().says("0 differences found");
    rclone(scene, &["check", "--download", &tree, &there]).well().says("0 differences found");
    room.put("t/a", b"this is b");
    rclone(scene, &["check", "--download", &tree, &there]).badly().says("1 differences found");
}

fn sync(scene: &CaseContext) {
    let (room, tree) = (scene.open(), tree(scene, "t"));
    let there = format!("{}t", remote(&room.http("")));
    rclone(scene, &["sync", &tree, &there]).well();
    std::fs::remove_file(scene.path("t/d/e")).unwrap();
    scene.write("t/new", b"new");
    scene.write("t/a", b"of another length");
    rclone(scene, &["sync", &tree, &there]).well();
    same(&scene.path("t"), &room.disk("t"));
    room.put("t/more", b"more");
    rclone(scene, &["sync", &there, &tree]).well();
    same(&scene.path("t"), &room.disk("t"));
}

fn tls(scene: &CaseContext) {
    let (room, tree, ca) = (scene.open(), tree(scene, "t"), scene.world.pki.ca.display().to_string());
    let there = format!("{}t", remote(&room.https("")));
    rclone(scene, &["--ca-cert", &ca, "copy", &tree, &there]).well();
    same(&scene.path("t"), &room.disk("t"));
}

fn moves(scene: &CaseContext) {
    let room = scene.open();
    room.put("f", FORTY);
    room.put("d/g", FORTY);
    let at = |name: &str| format!("{}{name}", remote(&room.http("")));
    rclone(scene, &["moveto", &at("f"), &at("h")]).well();
    assert_eq!(room.names(), ["d", "h"]);
    rclone(scene, &["deletefile", &at("h")]).well();
    room.put("p/q/r", FORTY);
    rclone(scene, &["purge", &at("p")]).well();
    rclone(scene, &["delete", &at("d")]).well();
    rclone(scene, &["rmdirs", &at("d")]).well();
    assert!(room.names().is_empty(), "{:?}", room.names());
}

fn about(scene: &CaseContext) {
    let room = scene.open();
    rclone(scene, &["about", &remote(&room.http(""))]).well().says("Free:").keeps_silent_of("Used:");
}

fn token(scene: &CaseContext) {
    let (room, ca) = (scene.closed(), scene.world.pki.ca.display().to_string());
    let token = scene.token(&["read", "modify"]);
    let file = scene.write("f", FORTY);
    let words = ["--ca-cert", &ca, "--webdav-bearer-token", &token, "copy", &file, &remote(&room.https(""))];
    rclone(scene, &words).well();
    assert_eq!(room.get("f"), FORTY);
}

fn key(scene: &CaseContext) {
    let (room, ca) = (scene.closed(), scene.world.pki.ca.display().to_string());
    let key = room.server().grant(&["--export", "data", "--write"]).expect("a node of ours");
    let obscured = rclone(scene, &["obscure", &key]).well().out.trim().to_owned();
    let file = scene.write("f", FORTY);
    let who = ["--webdav-user", "anybody", "--webdav-pass", &obscured];
    let there = remote(&room.https(""));
    rclone(scene, &[&["--ca-cert", &ca], &who[..], &["copy", &file, &there]].concat()).well();
    assert_eq!(room.get("f"), FORTY);
}

fn http_remote(url: &str) -> String {
    format!(":http,url='{url}':")
}

fn http_ls(scene: &CaseContext) {
    let room = scene.open();
    room.put("f", FORTY);
    room.put("a b", &FORTY[..4]);
    room.put("d/g", &FORTY[..5]);
    let seen = rclone(scene, &["ls", &http_remote(&room.http(""))]).well();
    let mut lines = seen.lines();
    lines.sort_unstable();
    assert_eq!(lines, ["4 a b", "40 f", "5 d/g"], "{seen:?}");
}

fn http_copy(scene: &CaseContext) {
    let room = scene.open();
    room.put("t/a", FORTY);
    room.put("t/d/b c", &pattern(2_000_000));
    let from = http_remote(&room.http("t/"));
    rclone(scene, &["copy", &from, scene.path("back").to_str().unwrap()]).well();
    same(&room.disk("t"), &scene.path("back"));
}
