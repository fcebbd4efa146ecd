//! gfal-copy: uploads, downloads, and copies between servers in all modes.

use super::{FORTY, pattern};
use crate::case::Case;
use crate::context::{CaseContext, ServerDir};

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

fn local(context: &CaseContext, name: &str) -> String {
    format!("file://{}", context.path(name).display())
}

fn up(context: &CaseContext) {
    let (dir, bytes) = (context.open(), pattern(MANY));
    context.write("f", &bytes);
    context.run(&["gfal-copy", &local(context, "f"), &dir.http("clear")]).expect_success();
    context.run(&["gfal-copy", "-K", "ADLER32", &local(context, "f"), &dir.https("tls")]).expect_success();
    assert!(dir.get("clear") == bytes && dir.get("tls") == bytes);
}

fn down(context: &CaseContext) {
    let (dir, bytes) = (context.open(), pattern(MANY));
    dir.put("f", &bytes);
    context.run(&["gfal-copy", &dir.http("f"), &local(context, "clear")]).expect_success();
    context.run(&["gfal-copy", "-K", "ADLER32", &dir.https("f"), &local(context, "tls")]).expect_success();
    assert!(["clear", "tls"].iter().all(|name| std::fs::read(context.path(name)).unwrap() == bytes));
}

fn parents(context: &CaseContext) {
    let dir = context.open();
    context.write("f", FORTY);
    context.run(&["gfal-copy", "-p", &local(context, "f"), &dir.http("a/b/f")]).expect_success();
    assert_eq!(dir.get("a/b/f"), FORTY);
}

fn exists(context: &CaseContext) {
    let dir = context.open();
    context.write("f", FORTY);
    dir.put("f", b"old");
    context.run(&["gfal-copy", &local(context, "f"), &dir.http("f")]).expect_code(17);
    assert_eq!(dir.get("f"), b"old");
    context.run(&["gfal-copy", "-f", &local(context, "f"), &dir.http("f")]).expect_success();
    assert_eq!(dir.get("f"), FORTY);
}

fn missing(context: &CaseContext) {
    let dir = context.open();
    context.run(&["gfal-copy", &dir.http("f"), &local(context, "f")]).expect_code(2);
    context.run(&["gfal-copy", "--copy-mode", "pull", &context.stock().http("f"), &dir.http("f")]).expect_code(2);
    assert!(dir.names().is_empty());
}

/// Copies from one server to another in a mode, with checksums compared.
fn between(context: &CaseContext, mode: &str, from: &ServerDir, to: &ServerDir, more: &[&str]) {
    let bytes = pattern(MANY);
    from.put("f", &bytes);
    let (source, target) = (from.http("f"), to.http("g"));
    let words = [&["gfal-copy", "-f", "-p", "--copy-mode", mode], more, &[&source, &target]].concat();
    context.run(&words).expect_success();
    assert!(to.get("g") == bytes, "{words:?}");
}

fn pull(context: &CaseContext) {
    between(context, "pull", &context.stock(), &context.open(), &["-K", "ADLER32"]);
}

fn push(context: &CaseContext) {
    between(context, "push", &context.open(), &context.stock(), &["-K", "ADLER32"]);
}

fn pulled(context: &CaseContext) {
    between(context, "pull", &context.open(), &context.stock(), &["-K", "ADLER32"]);
}

fn pushed(context: &CaseContext) {
    between(context, "push", &context.stock(), &context.open(), &["-K", "ADLER32"]);
}

fn streamed(context: &CaseContext) {
    between(context, "streamed", &context.stock(), &context.open(), &[]);
    between(context, "streamed", &context.open(), &context.stock(), &[]);
}

fn tokens(context: &CaseContext) {
    let (ours, theirs, bytes) = (context.closed(), context.guarded(), pattern(MANY));
    let token = context.token(&["read", "modify"]);
    let with = [("BEARER_TOKEN", token.as_str())];
    theirs.put("f", &bytes);
    ours.put("f", &bytes);
    for (mode, from, to) in [("pull", &theirs, &ours), ("push", &ours, &theirs)] {
        let (source, target) = (from.https("f"), to.https("g"));
        let words = ["gfal-copy", "-f", "-K", "ADLER32", "--copy-mode", mode, &source, &target];
        context.run_with(&with, &words).expect_success();
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

fn modes(context: &CaseContext) {
    // One side alone is compared with a value that the user has.
    let known = format!("ADLER32:{:08x}", adler32(&pattern(MANY)));
    for (mode, checksum) in [("source", known.as_str()), ("target", &known), ("both", "ADLER32"), ("both", &known)] {
        between(context, "pull", &context.stock(), &context.open(), &["-K", checksum, "--checksum-mode", mode]);
    }
}

fn wrong(context: &CaseContext) {
    let dir = context.open();
    dir.put("f", FORTY);
    let words = ["gfal-copy", "-K", "ADLER32:00000001", &dir.http("f"), &local(context, "f")];
    context.run(&words).expect_code(5);
}

fn streams(context: &CaseContext) {
    between(context, "pull", &context.stock(), &context.open(), &["-n", "4", "-K", "ADLER32"]);
}

fn root_in(context: &CaseContext) {
    let (ours, theirs, bytes) = (context.open(), context.stock(), pattern(MANY));
    theirs.put("f", &bytes);
    context.run(&["gfal-copy", "-f", "-K", "ADLER32", &theirs.root("f"), &ours.http("g")]).expect_success();
    assert!(ours.get("g") == bytes);
}

fn root_out(context: &CaseContext) {
    let (ours, theirs, bytes) = (context.open(), context.stock(), pattern(MANY));
    ours.put("f", &bytes);
    context.run(&["gfal-copy", "-f", "-K", "ADLER32", &ours.http("f"), &theirs.root("g")]).expect_success();
    assert!(theirs.get("g") == bytes);
}

fn tree(context: &CaseContext) {
    let dir = context.open();
    for name in ["t/a", "t/b", "t/d/c"] {
        context.write(name, name.as_bytes());
    }
    context.run(&["gfal-copy", "-r", &local(context, "t"), &dir.http("t")]).expect_success();
    context.run(&["gfal-copy", "-r", &dir.http("t"), &local(context, "back")]).expect_success();
    for name in ["a", "b", "d/c"] {
        assert_eq!(dir.get(&format!("t/{name}")), format!("t/{name}").as_bytes());
        assert_eq!(std::fs::read(context.path("back").join(name)).unwrap(), format!("t/{name}").as_bytes());
    }
}
