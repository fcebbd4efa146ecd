//! `longhaul` as a client of XRootD's protocol: at a stock xrootd, and at a node.

use super::{FORTY, NINE, pattern};
use crate::case::Case;
use crate::clients::ClientOutput;
use crate::context::CaseContext;
use crate::node::LONGHAUL;

const CLIENT: &str = "longhaul-root";

pub const CASES: &[Case] = &[
    Case::new(CLIENT, "get", "cp from an xrootd", "the file", get),
    Case::new(CLIENT, "get-tls", "cp from an xrootd by roots://", "the file", get_tls),
    Case::new(CLIENT, "get-from-us", "cp from a node by root:// and roots://", "the file", get_from_us),
    Case::new(CLIENT, "put", "cp to an xrootd, over a file too", "the file", put),
    Case::new(CLIENT, "put-to-us", "cp to a node by root:// and roots://", "the file", put_to_us),
    Case::new(CLIENT, "tree", "cp -r to an xrootd and back; again", "all files; nothing is copied again", tree),
    Case::new(CLIENT, "between", "cp from an xrootd to a node by root://", "the file", between),
    Case::new(CLIENT, "ls", "ls, ls -l", "names, sizes", ls),
    Case::new(CLIENT, "changes", "mkdir, mv, stat, digest, rm", "as with directories", changes),
    Case::new(CLIENT, "missing", "cp of nothing; a port where nobody listens", "exit codes 1 and 5", missing),
    Case::new(CLIENT, "token", "cp with BEARER_TOKEN over roots://", "the file", token),
    Case::new(CLIENT, "no-token", "cp without", "exit code 4", no_token),
    Case::new(CLIENT, "mirrors", "cp from an xrootd and a node at once", "the file", mirrors),
];

fn run(context: &CaseContext, words: &[&str]) -> ClientOutput {
    run_with(context, &[], words)
}

fn run_with(context: &CaseContext, more: &[(&str, &str)], words: &[&str]) -> ClientOutput {
    let state = context.path("state").display().to_string();
    let ca = context.test_bed.pki.ca.display().to_string();
    let all = [&[LONGHAUL, "--state", &state, "--cacert", &ca], words].concat();
    context.run_with(more, &all)
}

fn fetch(context: &CaseContext, url: &str, name: &str) -> Vec<u8> {
    let path = context.path(name).display().to_string();
    run(context, &["cp", url, &path]).expect_success();
    std::fs::read(path).unwrap()
}

fn get(context: &CaseContext) {
    let (theirs, bytes) = (context.stock(), pattern(50_000_001));
    theirs.put("f", &bytes);
    assert!(fetch(context, &theirs.root("f"), "g") == bytes);
}

fn get_tls(context: &CaseContext) {
    let (theirs, bytes) = (context.stock(), pattern(20_000_000));
    theirs.put("f", &bytes);
    assert!(fetch(context, &theirs.roots("f"), "g") == bytes);
}

fn get_from_us(context: &CaseContext) {
    let (ours, bytes) = (context.open(), pattern(50_000_001));
    ours.put("f", &bytes);
    for (url, name) in [(ours.root("f"), "clear"), (ours.roots("f"), "tls")] {
        assert!(fetch(context, &url, name) == bytes, "{name}");
    }
}

fn put(context: &CaseContext) {
    let (theirs, bytes) = (context.stock(), pattern(30_000_000));
    theirs.put("g", NINE);
    let file = context.write("f", &bytes);
    run(context, &["cp", "--sync", "none", &file, &theirs.root("g")]).expect_success();
    run(context, &["cp", &file, &theirs.root("new/h")]).expect_success();
    assert!(theirs.get("g") == bytes && theirs.get("new/h") == bytes);
    assert_eq!(theirs.names(), ["g", "new"], "no temporary file is left");
}

fn put_to_us(context: &CaseContext) {
    let (ours, bytes) = (context.open(), pattern(30_000_000));
    let file = context.write("f", &bytes);
    for (url, name) in [(ours.root("clear"), "clear"), (ours.roots("tls"), "tls")] {
        run(context, &["cp", &file, &url]).expect_success();
        assert!(ours.get(name) == bytes, "{name}");
    }
    assert_eq!(ours.names(), ["clear", "tls"]);
}

fn tree(context: &CaseContext) {
    let theirs = context.stock();
    for name in ["t/a", "t/b c", "t/d/e", "t/empty"] {
        context.write(name, name.as_bytes());
    }
    (0..50).for_each(|at| drop(context.write(&format!("t/many/{at}"), &pattern(1000 + at))));
    let (from, back) = (context.path("t").display().to_string(), context.path("back").display().to_string());
    run(context, &["cp", "-r", &from, &theirs.root("t")]).expect_success();
    assert_eq!(theirs.get("t/b c"), b"t/b c");
    run(context, &["cp", "-r", &from, &theirs.root("t")]).expect_success();
    run(context, &["cp", "-r", &theirs.root("t"), &back]).expect_success();
    assert_eq!(std::fs::read(context.path("back/d/e")).unwrap(), b"t/d/e");
    assert_eq!(std::fs::read(context.path("back/many/49")).unwrap(), pattern(1049));
}

fn between(context: &CaseContext) {
    let (ours, theirs, bytes) = (context.open(), context.stock(), pattern(5_000_000));
    theirs.put("f", &bytes);
    run(context, &["cp", &theirs.root("f"), &ours.root("g")]).expect_success();
    assert!(ours.get("g") == bytes);
}

fn ls(context: &CaseContext) {
    let theirs = context.stock();
    theirs.put("f", FORTY);
    theirs.make_dir("d");
    let seen = run(context, &["ls", &theirs.root("")]).expect_success();
    let mut names = seen.lines();
    names.sort_unstable();
    assert_eq!(names, ["d/", "f"]);
    run(context, &["ls", "-l", &theirs.root("")]).expect_success().expect_text("40");
}

fn changes(context: &CaseContext) {
    let theirs = context.stock();
    theirs.put("f", NINE);
    run(context, &["mkdir", &theirs.root("d")]).expect_success();
    run(context, &["mv", &theirs.root("f"), &theirs.root("d/g")]).expect_success();
    run(context, &["stat", &theirs.root("d/g")]).expect_success().expect_text("9");
    let digest = run(context, &["digest", "--checksum", "adler32", &theirs.root("d/g")]).expect_success();
    digest.expect_text("091e01de");
    run(context, &["rm", "-r", &theirs.root("d")]).expect_success();
    assert!(!theirs.has("d"));
}

fn missing(context: &CaseContext) {
    let path = context.path("g").display().to_string();
    run(context, &["cp", &context.stock().root("none"), &path]).expect_code(1);
    // The port of a listener that is closed again.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    run(context, &["cp", &format!("root://127.0.0.1:{port}//f"), &path]).expect_code(5);
    run(context, &["cp", "root://127.0.0.1:x//f", &path]).expect_code(2);
}

fn token(context: &CaseContext) {
    let ours = context.closed();
    let token = context.token(&["read", "create", "modify"]);
    let bearer = [("BEARER_TOKEN", token.as_str())];
    let (file, back) = (context.write("f", FORTY), context.path("back").display().to_string());
    run_with(context, &bearer, &["cp", &file, &ours.roots("g")]).expect_success();
    run_with(context, &bearer, &["cp", &ours.roots("g"), &back]).expect_success();
    assert_eq!(std::fs::read(back).unwrap(), FORTY);
}

fn no_token(context: &CaseContext) {
    let ours = context.closed();
    ours.put("f", NINE);
    let path = context.path("g").display().to_string();
    run(context, &["cp", &ours.roots("f"), &path]).expect_code(4);
}

fn mirrors(context: &CaseContext) {
    let (ours, theirs, bytes) = (context.open(), context.stock(), pattern(60_000_000));
    ours.put("f", &bytes);
    theirs.put("f", &bytes);
    let path = context.path("g").display().to_string();
    run(context, &["cp", &theirs.root("f"), &path, "--mirror", &ours.root("f")]).expect_success();
    assert!(std::fs::read(path).unwrap() == bytes);
}
