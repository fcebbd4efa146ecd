//! davix: the client below most grid tools.

use super::{FORTY, pattern};
use crate::case::Case;
use crate::scene::CaseContext;

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

/// davix's words for authorities.
fn davix<'a>(scene: &'a CaseContext, program: &'a str, words: &[&'a str]) -> Vec<&'a str> {
    let directory = scene.world.pki.directory.to_str().unwrap();
    [&[program, "--capath", directory, "--retry", "1"], words].concat()
}

fn get(scene: &CaseContext) {
    let (room, bytes) = (scene.open(), pattern(10_000_000));
    room.put("f", &bytes);
    for (url, name) in [(room.http("f"), "clear"), (room.https("f"), "tls")] {
        scene.run(&davix(scene, "davix-get", &[&url, name])).well();
        assert!(std::fs::read(scene.path(name)).unwrap() == bytes, "{name}");
    }
}

fn get_missing(scene: &CaseContext) {
    scene.run(&davix(scene, "davix-get", &[&scene.open().http("f"), "f"])).badly().says("404");
}

fn put(scene: &CaseContext) {
    let (room, bytes) = (scene.open(), pattern(10_000_000));
    let file = scene.write("f", &bytes);
    for (url, name) in [(room.http("clear"), "clear"), (room.https("tls"), "tls")] {
        scene.run(&davix(scene, "davix-put", &[&file, &url])).well();
        assert!(room.get(name) == bytes, "{name}");
    }
    assert_eq!(room.names(), ["clear", "tls"]);
}

fn put_again(scene: &CaseContext) {
    let (room, file) = (scene.open(), scene.write("f", FORTY));
    room.put("f", &pattern(1000));
    scene.run(&davix(scene, "davix-put", &[&file, &room.http("f")])).well();
    assert_eq!(room.get("f"), FORTY);
    let file = scene.write("g", &FORTY[..9]);
    scene.run(&davix(scene, "davix-put", &["--no-100-continue", &file, &room.http("f")])).well();
    assert_eq!(room.get("f"), &FORTY[..9]);
}

fn put_tree(scene: &CaseContext) {
    let room = scene.open();
    for name in ["tree/a", "tree/b", "tree/d/c"] {
        scene.write(name, name.as_bytes());
    }
    let tree = scene.path("tree");
    scene.run(&davix(scene, "davix-put", &["-r", "2", tree.to_str().unwrap(), &room.http("t")]));
    for name in ["a", "b", "d/c"] {
        assert_eq!(room.get(&format!("t/{name}")), format!("tree/{name}").as_bytes());
    }
}

fn ls(scene: &CaseContext) {
    let room = scene.open();
    room.put("f", FORTY);
    room.put("a b", &FORTY[..3]);
    room.make_dir("d");
    let seen = scene.run(&davix(scene, "davix-ls", &[&room.http("")])).well();
    let mut names = seen.lines();
    names.sort_unstable();
    assert_eq!(names, ["a b", "d", "f"], "{seen:?}");
    let seen = scene.run(&davix(scene, "davix-ls", &["-l", &room.http("")])).well();
    let of = |name: &str| seen.lines().into_iter().find(|line| line.ends_with(name)).unwrap().to_owned();
    assert!(of(" f").contains(" 40 ") && of("a b").contains(" 3 ") && of(" d").starts_with('d'), "{seen:?}");
}

fn mkdir(scene: &CaseContext) {
    let room = scene.open();
    scene.run(&davix(scene, "davix-mkdir", &[&room.http("d")])).well();
    assert!(room.disk("d").is_dir());
}

fn mv(scene: &CaseContext) {
    let room = scene.open();
    room.put("f", FORTY);
    scene.run(&davix(scene, "davix-mv", &[&room.http("f"), &room.http("g")]));
    assert_eq!((room.names(), room.get("g")), (vec!["g".to_owned()], FORTY.to_vec()));
}

fn rm(scene: &CaseContext) {
    let room = scene.open();
    room.put("f", FORTY);
    scene.run(&davix(scene, "davix-rm", &[&room.http("f")])).well();
    assert!(room.names().is_empty());
}

fn rm_tree(scene: &CaseContext) {
    let room = scene.open();
    room.put("d/e/f", FORTY);
    room.put("d/g", FORTY);
    scene.run(&davix(scene, "davix-rm", &["-r", "2", &room.http("d")])).well();
    assert!(room.names().is_empty(), "{:?}", room.names());
}

fn ipv6(scene: &CaseContext) {
    let room = scene.open();
    let file = scene.write("f", FORTY);
    // It holds the name with its brackets against the certificate, where there are none: not asked to, it gets through.
    scene.run(&davix(scene, "davix-put", &["-k", &file, &room.bracketed("f")])).well();
    scene.run(&davix(scene, "davix-get", &["-k", &room.bracketed("f"), "back"])).well();
    assert_eq!(std::fs::read(scene.path("back")).unwrap(), FORTY);
}

fn rm_missing(scene: &CaseContext) {
    scene.run(&davix(scene, "davix-rm", &[&scene.open().http("f")])).badly().says("404");
}

fn copied(scene: &CaseContext, mode: &str, from: &str, to: &str) {
    scene.run(&davix(scene, "davix-cp", &["--copy-mode", mode, from, to])).well();
}

fn cp_pull(scene: &CaseContext) {
    let (ours, theirs, bytes) = (scene.open(), scene.stock(), pattern(5_000_000));
    theirs.put("f", &bytes);
    copied(scene, "pull", &theirs.http("f"), &ours.http("g"));
    assert!(ours.get("g") == bytes);
}

fn cp_push(scene: &CaseContext) {
    let (ours, theirs, bytes) = (scene.open(), scene.stock(), pattern(5_000_000));
    ours.put("f", &bytes);
    copied(scene, "push", &ours.http("f"), &theirs.http("g"));
    assert!(theirs.get("g") == bytes);
}

fn cp_pull_tls(scene: &CaseContext) {
    let (ours, theirs, bytes) = (scene.open(), scene.stock(), pattern(5_000_000));
    theirs.put("f", &bytes);
    copied(scene, "pull", &theirs.https("f"), &ours.https("g"));
    assert!(ours.get("g") == bytes);
}

fn cp_push_tls(scene: &CaseContext) {
    let (ours, theirs, bytes) = (scene.open(), scene.stock(), pattern(5_000_000));
    ours.put("f", &bytes);
    copied(scene, "push", &ours.https("f"), &theirs.https("g"));
    assert!(theirs.get("g") == bytes);
}

fn cp_missing(scene: &CaseContext) {
    let (ours, theirs) = (scene.open(), scene.stock());
    let words = ["--copy-mode", "pull", &theirs.http("f"), &ours.http("g")];
    scene.run(&davix(scene, "davix-cp", &words)).badly();
    assert!(ours.names().is_empty(), "{:?}", ours.names());
}

fn token(scene: &CaseContext) {
    let (room, file) = (scene.closed(), scene.write("f", FORTY));
    let header = format!("Authorization: Bearer {}", scene.token(&["read", "modify"]));
    scene.run(&davix(scene, "davix-put", &["-H", &header, &file, &room.https("f")])).well();
    scene.run(&davix(scene, "davix-get", &["-H", &header, &room.https("f"), "back"])).well();
    assert_eq!(std::fs::read(scene.path("back")).unwrap(), FORTY);
}

fn no_token(scene: &CaseContext) {
    let room = scene.closed();
    room.put("f", FORTY);
    scene.run(&davix(scene, "davix-get", &[&room.https("f"), "back"])).badly();
}

fn certificate(scene: &CaseContext) {
    let (room, file) = (scene.closed(), scene.write("f", FORTY));
    let alice = &scene.world.pki.alice;
    let who = ["-E", alice.certificate.to_str().unwrap(), "--key", alice.key.to_str().unwrap()];
    scene.run(&davix(scene, "davix-put", &[&who[..], &[&file, &room.https("f")]].concat())).well();
    scene.run(&davix(scene, "davix-get", &[&who[..], &[&room.https("f"), "back"]].concat())).well();
    assert_eq!(std::fs::read(scene.path("back")).unwrap(), FORTY);
}
