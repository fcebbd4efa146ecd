//! davix: the client below most grid tools.

use super::{FORTY, pattern};
use crate::case::Case;
use crate::context::CaseContext;

const DAVIX: &str = "davix";

pub const CASES: &[Case] = &[
    Case::new(DAVIX, "get", "davix-get, in clear and over TLS", "the file", get),
    Case::new(DAVIX, "get-missing", "davix-get of nothing", "fails: 404", get_missing),
    Case::new(DAVIX, "put", "davix-put, in clear and over TLS", "the file", put),
    Case::new(DAVIX, "put-again", "davix-put over a file; without 100-continue", "the new file", put_again),
    Case::new(DAVIX, "put-tree", "davix-put -r", "every file", put_tree),
    Case::new(DAVIX, "ls", "davix-ls, davix-ls -l", "names; sizes and dates", ls),
    Case::new(DAVIX, "mkdir", "davix-mkdir", "a directory", mkdir),
    Case::new(DAVIX, "mv", "davix-mv", "another name (davix 0.8.4 takes a 201 for a failure: exit code 255)", mv),
    Case::new(DAVIX, "rm", "davix-rm", "no file", rm),
    Case::new(DAVIX, "rm-tree", "davix-rm -r", "no tree", rm_tree),
    Case::new(DAVIX, "ipv6", "davix-get -k and davix-put -k to `https://[::1]`", "the file", ipv6),
    Case::new(DAVIX, "rm-missing", "davix-rm of nothing", "fails: 404", rm_missing),
    Case::new(DAVIX, "cp-pull", "davix-cp --copy-mode pull, from xrootd", "the file", cp_pull),
    Case::new(DAVIX, "cp-push", "davix-cp --copy-mode push, to xrootd", "the file", cp_push),
    Case::new(DAVIX, "cp-pull-tls", "the same over TLS", "the file", cp_pull_tls),
    Case::new(DAVIX, "cp-push-tls", "the same over TLS, push", "the file", cp_push_tls),
    Case::new(DAVIX, "cp-missing", "davix-cp of nothing", "fails, and leaves nothing", cp_missing)
        .stock("leaves an empty file"),
    Case::new(DAVIX, "token", "davix-put and -get with `-H Authorization`", "the file", token),
    Case::new(DAVIX, "no-token", "davix-get without", "fails", no_token),
    Case::new(DAVIX, "certificate", "davix-put and -get with a certificate", "the file", certificate)
        .stock("asks for tokens only"),
];

/// davix's options for authorities.
fn davix<'a>(context: &'a CaseContext, program: &'a str, words: &[&'a str]) -> Vec<&'a str> {
    let directory = context.test_bed.pki.directory.to_str().unwrap();
    [&[program, "--capath", directory, "--retry", "1"], words].concat()
}

fn get(context: &CaseContext) {
    let (dir, bytes) = (context.open(), pattern(10_000_000));
    dir.put("f", &bytes);
    for (url, name) in [(dir.http("f"), "clear"), (dir.https("f"), "tls")] {
        context.run(&davix(context, "davix-get", &[&url, name])).expect_success();
        assert!(std::fs::read(context.path(name)).unwrap() == bytes, "{name}");
    }
}

fn get_missing(context: &CaseContext) {
    context.run(&davix(context, "davix-get", &[&context.open().http("f"), "f"])).expect_failure().expect_text("404");
}

fn put(context: &CaseContext) {
    let (dir, bytes) = (context.open(), pattern(10_000_000));
    let file = context.write("f", &bytes);
    for (url, name) in [(dir.http("clear"), "clear"), (dir.https("tls"), "tls")] {
        context.run(&davix(context, "davix-put", &[&file, &url])).expect_success();
        assert!(dir.get(name) == bytes, "{name}");
    }
    assert_eq!(dir.names(), ["clear", "tls"]);
}

fn put_again(context: &CaseContext) {
    let (dir, file) = (context.open(), context.write("f", FORTY));
    dir.put("f", &pattern(1000));
    context.run(&davix(context, "davix-put", &[&file, &dir.http("f")])).expect_success();
    assert_eq!(dir.get("f"), FORTY);
    let file = context.write("g", &FORTY[..9]);
    context.run(&davix(context, "davix-put", &["--no-100-continue", &file, &dir.http("f")])).expect_success();
    assert_eq!(dir.get("f"), &FORTY[..9]);
}

fn put_tree(context: &CaseContext) {
    let dir = context.open();
    for name in ["tree/a", "tree/b", "tree/d/c"] {
        context.write(name, name.as_bytes());
    }
    let tree = context.path("tree");
    context.run(&davix(context, "davix-put", &["-r", "2", tree.to_str().unwrap(), &dir.http("t")]));
    for name in ["a", "b", "d/c"] {
        assert_eq!(dir.get(&format!("t/{name}")), format!("tree/{name}").as_bytes());
    }
}

fn ls(context: &CaseContext) {
    let dir = context.open();
    dir.put("f", FORTY);
    dir.put("a b", &FORTY[..3]);
    dir.make_dir("d");
    let seen = context.run(&davix(context, "davix-ls", &[&dir.http("")])).expect_success();
    let mut names = seen.lines();
    names.sort_unstable();
    assert_eq!(names, ["a b", "d", "f"], "{seen:?}");
    let seen = context.run(&davix(context, "davix-ls", &["-l", &dir.http("")])).expect_success();
    let line_of = |name: &str| seen.lines().into_iter().find(|line| line.ends_with(name)).unwrap().to_owned();
    assert!(
        line_of(" f").contains(" 40 ") && line_of("a b").contains(" 3 ") && line_of(" d").starts_with('d'),
        "{seen:?}"
    );
}

fn mkdir(context: &CaseContext) {
    let dir = context.open();
    context.run(&davix(context, "davix-mkdir", &[&dir.http("d")])).expect_success();
    assert!(dir.disk("d").is_dir());
}

fn mv(context: &CaseContext) {
    let dir = context.open();
    dir.put("f", FORTY);
    context.run(&davix(context, "davix-mv", &[&dir.http("f"), &dir.http("g")]));
    assert_eq!((dir.names(), dir.get("g")), (vec!["g".to_owned()], FORTY.to_vec()));
}

fn rm(context: &CaseContext) {
    let dir = context.open();
    dir.put("f", FORTY);
    context.run(&davix(context, "davix-rm", &[&dir.http("f")])).expect_success();
    assert!(dir.names().is_empty());
}

fn rm_tree(context: &CaseContext) {
    let dir = context.open();
    dir.put("d/e/f", FORTY);
    dir.put("d/g", FORTY);
    context.run(&davix(context, "davix-rm", &["-r", "2", &dir.http("d")])).expect_success();
    assert!(dir.names().is_empty(), "{:?}", dir.names());
}

fn ipv6(context: &CaseContext) {
    let dir = context.open();
    let file = context.write("f", FORTY);
    // It compares the name with its brackets with the certificate, which has none: without the check it connects.
    context.run(&davix(context, "davix-put", &["-k", &file, &dir.bracketed("f")])).expect_success();
    context.run(&davix(context, "davix-get", &["-k", &dir.bracketed("f"), "back"])).expect_success();
    assert_eq!(std::fs::read(context.path("back")).unwrap(), FORTY);
}

fn rm_missing(context: &CaseContext) {
    context.run(&davix(context, "davix-rm", &[&context.open().http("f")])).expect_failure().expect_text("404");
}

fn copy(context: &CaseContext, mode: &str, from: &str, to: &str) {
    context.run(&davix(context, "davix-cp", &["--copy-mode", mode, from, to])).expect_success();
}

fn cp_pull(context: &CaseContext) {
    let (ours, theirs, bytes) = (context.open(), context.stock(), pattern(5_000_000));
    theirs.put("f", &bytes);
    copy(context, "pull", &theirs.http("f"), &ours.http("g"));
    assert!(ours.get("g") == bytes);
}

fn cp_push(context: &CaseContext) {
    let (ours, theirs, bytes) = (context.open(), context.stock(), pattern(5_000_000));
    ours.put("f", &bytes);
    copy(context, "push", &ours.http("f"), &theirs.http("g"));
    assert!(theirs.get("g") == bytes);
}

fn cp_pull_tls(context: &CaseContext) {
    let (ours, theirs, bytes) = (context.open(), context.stock(), pattern(5_000_000));
    theirs.put("f", &bytes);
    copy(context, "pull", &theirs.https("f"), &ours.https("g"));
    assert!(ours.get("g") == bytes);
}

fn cp_push_tls(context: &CaseContext) {
    let (ours, theirs, bytes) = (context.open(), context.stock(), pattern(5_000_000));
    ours.put("f", &bytes);
    copy(context, "push", &ours.https("f"), &theirs.https("g"));
    assert!(theirs.get("g") == bytes);
}

fn cp_missing(context: &CaseContext) {
    let (ours, theirs) = (context.open(), context.stock());
    let words = ["--copy-mode", "pull", &theirs.http("f"), &ours.http("g")];
    context.run(&davix(context, "davix-cp", &words)).expect_failure();
    assert!(ours.names().is_empty(), "{:?}", ours.names());
}

fn token(context: &CaseContext) {
    let (dir, file) = (context.closed(), context.write("f", FORTY));
    let header = format!("Authorization: Bearer {}", context.token(&["read", "modify"]));
    context.run(&davix(context, "davix-put", &["-H", &header, &file, &dir.https("f")])).expect_success();
    context.run(&davix(context, "davix-get", &["-H", &header, &dir.https("f"), "back"])).expect_success();
    assert_eq!(std::fs::read(context.path("back")).unwrap(), FORTY);
}

fn no_token(context: &CaseContext) {
    let dir = context.closed();
    dir.put("f", FORTY);
    context.run(&davix(context, "davix-get", &[&dir.https("f"), "back"])).expect_failure();
}

fn certificate(context: &CaseContext) {
    let (dir, file) = (context.closed(), context.write("f", FORTY));
    let alice = &context.test_bed.pki.alice;
    let who = ["-E", alice.certificate.to_str().unwrap(), "--key", alice.key.to_str().unwrap()];
    context.run(&davix(context, "davix-put", &[&who[..], &[&file, &dir.https("f")]].concat())).expect_success();
    context.run(&davix(context, "davix-get", &[&who[..], &[&dir.https("f"), "back"]].concat())).expect_success();
    assert_eq!(std::fs::read(context.path("back")).unwrap(), FORTY);
}
