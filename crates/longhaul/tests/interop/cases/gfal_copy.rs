//! gfal-copy: uploads, downloads, and copies between servers in all modes.

use super::{FORTY, pattern};
use crate::case::Case;
use crate::scene::{CaseContext, ServerDir};

const GFAL: &str = "gfal2";

pub const CASES: &[Case] = &[
    Case::new(GFAL, "copy-up", "gfal-copy from a file", "the file", up),
    Case::new(GFAL, "copy-down", "gfal-copy to a file", "the file", down),
    Case::new(GFAL, "copy-parents", "gfal-copy -p below directories that are not there", "the file", parents),
    Case::new(GFAL, "copy-exists", "gfal-copy over a file", "exit code 17; with -f: the new one", exists),
    Case::new(GFAL, "copy-missing", "gfal-copy of nothing", "exit code 2", missing),
    Case::new(GFAL, "copy-pull", "gfal-copy --copy-mode pull -K ADLER32 from xrootd", "the file", pull),
    Case::new(GFAL, "copy-push", "gfal-copy --copy-mode push -K ADLER32 to xrootd", "the file", push),
    Case::new(GFAL, "copy-pulled", "pull by xrootd from us", "the file", pulled),
    Case::new(GFAL, "copy-pushed", "push by xrootd to us", "the file", pushed),
    Case::new(GFAL, "copy-streamed", "gfal-copy --copy-mode streamed, both ways", "the files", streamed),
    Case::new(
        GFAL,
        "copy-tokens",
        "gfal-copy --copy-mode pull and push over TLS with BEARER_TOKEN",
        "the files",
        tokens,
    ),
    Case::new(GFAL, "copy-checksum-modes", "-K ADLER32 with --checksum-mode source, target, both", "the files", modes),
    Case::new(GFAL, "copy-checksum-wrong", "-K ADLER32:00000001", "exit code 5, no file", wrong),
    Case::new(GFAL, "copy-streams", "gfal-copy -n 4 --copy-mode pull", "the file", streams),
    Case::new(GFAL, "copy-root-in", "gfal-copy from root:// to us", "the file", root_in),
    Case::new(GFAL, "copy-root-out", "gfal-copy from us to root://", "the file", root_out),
    Case::new(GFAL, "copy-tree", "gfal-copy -r from a directory and back", "the files", tree),
];

const MANY: usize = 3_000_000;

fn local(scene: &CaseContext, name: &str) -> String {
    format!("file://{}", scene.path(name).display())
}

fn up(scene: &CaseContext) {
    let (room, bytes) = (scene.open(), pattern(MANY));
    scene.write("f", &bytes);
    scene.run(&["gfal-copy", &local(scene, "f"), &room.http("clear")]).well();
    scene.run(&["gfal-copy", "-K", "ADLER32", &local(scene, "f"), &room.https("tls")]).well();
    assert!(room.get("clear") == bytes && room.get("tls") == bytes);
}

fn down(scene: &CaseContext) {
    let (room, bytes) = (scene.open(), pattern(MANY));
    room.put("f", &bytes);
    scene.run(&["gfal-copy", &room.http("f"), &local(scene, "clear")]).well();
    scene.run(&["gfal-copy", "-K", "ADLER32", &room.https("f"), &local(scene, "tls")]).well();
    assert!(["clear", "tls"].iter().all(|name| std::fs::read(scene.path(name)).unwrap() == bytes));
}

fn parents(scene: &CaseContext) {
    let room = scene.open();
    scene.write("f", FORTY);
    scene.run(&["gfal-copy", "-p", &local(scene, "f"), &room.http("a/b/f")]).well();
    assert_eq!(room.get("a/b/f"), FORTY);
}

fn exists(scene: &CaseContext) {
    let room = scene.open();
    scene.write("f", FORTY);
    room.put("f", b"old");
    scene.run(&["gfal-copy", &local(scene, "f"), &room.http("f")]).with(17);
    assert_eq!(room.get("f"), b"old");
    scene.run(&["gfal-copy", "-f", &local(scene, "f"), &room.http("f")]).well();
    assert_eq!(room.get("f"), FORTY);
}

fn missing(scene: &CaseContext) {
    let room = scene.open();
    scene.run(&["gfal-copy", &room.http("f"), &local(scene, "f")]).with(2);
    scene.run(&["gfal-copy", "--copy-mode", "pull", &scene.stock().http("f"), &room.http("f")]).with(2);
    assert!(room.names().is_empty());
}

/// Copies from one server to another in a mode, with checksums compared.
fn between(scene: &CaseContext, mode: &str, from: &ServerDir, to: &ServerDir, more: &[&str]) {
    let bytes = pattern(MANY);
    from.put("f", &bytes);
    let (source, target) = (from.http("f"), to.http("g"));
    let words = [&["gfal-copy", "-f", "-p", "--copy-mode", mode], more, &[&source, &target]].concat();
    scene.run(&words).well();
    assert!(to.get("g") == bytes, "{words:?}");
}

fn pull(scene: &CaseContext) {
    between(scene, "pull", &scene.stock(), &scene.open(), &["-K", "ADLER32"]);
}

fn push(scene: &CaseContext) {
    between(scene, "push", &scene.open(), &scene.stock(), &["-K", "ADLER32"]);
}

fn pulled(scene: &CaseContext) {
    between(scene, "pull", &scene.open(), &scene.stock(), &["-K", "ADLER32"]);
}

fn pushed(scene: &CaseContext) {
    between(scene, "push", &scene.stock(), &scene.open(), &["-K", "ADLER32"]);
}

fn streamed(scene: &CaseContext) {
    between(scene, "streamed", &scene.stock(), &scene.open(), &[]);
    between(scene, "streamed", &scene.open(), &scene.stock(), &[]);
}

fn tokens(scene: &CaseContext) {
    let (ours, theirs, bytes) = (scene.closed(), scene.guarded(), pattern(MANY));
    let token = scene.token(&["read", "modify"]);
    let with = [("BEARER_TOKEN", token.as_str())];
    theirs.put("f", &bytes);
    ours.put("f", &bytes);
    for (mode, from, to) in [("pull", &theirs, &ours), ("push", &ours, &theirs)] {
        let (source, target) = (from.https("f"), to.https("g"));
        let words = ["gfal-copy", "-f", "-K", "ADLER32", "--copy-mode", mode, &source, &target];
        scene.run_with(&with, &words).well();
        assert!(to.get("g") == bytes, "{mode}");
    }
}

/// Adler-32 (RFC 1950), the plain way.
fn adler32(bytes: &[u8]) -> u32 {
    let (mut a, mut b) = (1, 0);
    for byte in bytes {
        a = (a + u32::from(*byte)) % 65_521;
        b = (b + a) % 65_521;
    }
    b << 16 | a
}

fn modes(scene: &CaseContext) {
    // One side alone is compared with a value that the user has.
    let known = format!("ADLER32:{:08x}", adler32(&pattern(MANY)));
    for (mode, checksum) in [("source", known.as_str()), ("target", &known), ("both", "ADLER32"), ("both", &known)] {
        between(scene, "pull", &scene.stock(), &scene.open(), &["-K", checksum, "--checksum-mode", mode]);
    }
}

fn wrong(scene: &CaseContext) {
    let room = scene.open();
    room.put("f", FORTY);
    let words = ["gfal-copy", "-K", "ADLER32:00000001", &room.http("f"), &local(scene, "f")];
    scene.run(&words).with(5);
}

fn streams(scene: &CaseContext) {
    between(scene, "pull", &scene.stock(), &scene.open(), &["-n", "4", "-K", "ADLER32"]);
}

fn root_in(scene: &CaseContext) {
    let (ours, theirs, bytes) = (scene.open(), scene.stock(), pattern(MANY));
    theirs.put("f", &bytes);
    scene.run(&["gfal-copy", "-f", "-K", "ADLER32", &theirs.root("f"), &ours.http("g")]).well();
    assert!(ours.get("g") == bytes);
}

fn root_out(scene: &CaseContext) {
    let (ours, theirs, bytes) = (scene.open(), scene.stock(), pattern(MANY));
    ours.put("f", &bytes);
    scene.run(&["gfal-copy", "-f", "-K", "ADLER32", &ours.http("f"), &theirs.root("g")]).well();
    assert!(theirs.get("g") == bytes);
}

fn tree(scene: &CaseContext) {
    let room = scene.open();
    for name in ["t/a", "t/b", "t/d/c"] {
        scene.write(name, name.as_bytes());
    }
    scene.run(&["gfal-copy", "-r", &local(scene, "t"), &room.http("t")]).well();
    scene.run(&["gfal-copy", "-r", &room.http("t"), &local(scene, "back")]).well();
    for name in ["a", "b", "d/c"] {
        assert_eq!(room.get(&format!("t/{name}")), format!("t/{name}").as_bytes());
        assert_eq!(std::fs::read(scene.path("back").join(name)).unwrap(), format!("t/{name}").as_bytes());
    }
}
