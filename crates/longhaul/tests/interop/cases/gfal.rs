//! gfal2's commands on one server: what FTS and Rucio ask of a storage.

use super::{FORTY, NINE, pattern};
use crate::case::Case;
use crate::scene::CaseContext;

const GFAL: &str = "gfal2";

pub const CASES: &[Case] = &[
    Case::new(GFAL, "ls", "gfal-ls, gfal-ls -l", "names; sizes and dates", ls),
    Case::new(GFAL, "ls-tls", "gfal-ls over TLS", "names", ls_tls),
    Case::new(
        GFAL,
        "ipv6",
        "gfal-ls and -copy from `https://[::1]`, told not to look at the certificate",
        "names; the file",
        ipv6,
    ),
    Case::new(GFAL, "stat", "gfal-stat", "size, kind, date", stat),
    Case::new(GFAL, "stat-missing", "gfal-stat of nothing", "exit code 2", stat_missing),
    Case::new(GFAL, "mkdir", "gfal-mkdir", "a directory", mkdir),
    Case::new(GFAL, "mkdir-parents", "gfal-mkdir -p a/b/c", "directories", mkdir_parents),
    Case::new(GFAL, "rename", "gfal-rename", "another name", rename),
    Case::new(GFAL, "rm", "gfal-rm", "no file", rm),
    Case::new(GFAL, "rm-tree", "gfal-rm -r", "no tree", rm_tree),
    Case::new(GFAL, "rm-missing", "gfal-rm of nothing", "exit code 2, MISSING", rm_missing),
    Case::new(GFAL, "sum-adler32", "gfal-sum ADLER32", "091e01de", sum_adler32),
    Case::new(GFAL, "sum-md5", "gfal-sum MD5", "hexadecimal", sum_md5),
    Case::new(GFAL, "sum-crc32c", "gfal-sum CRC32C", "e3069283", sum_crc32c).stock("base64"),
    Case::new(GFAL, "save", "gfal-save", "a file", cat),
    Case::new(GFAL, "token", "gfal-stat, -copy, -rm with BEARER_TOKEN", "as without", token),
    Case::new(
        GFAL,
        "certificate",
        "gfal-copy and gfal-stat with a certificate",
        "the file (a macaroon is asked for)",
        certificate,
    )
    .stock("asks for tokens only"),
    Case::new(GFAL, "no-token", "gfal-stat without", "fails", no_token),
];

fn ls(scene: &CaseContext) {
    let room = scene.open();
    room.put("f", FORTY);
    room.make_dir("d");
    let seen = scene.run(&["gfal-ls", &room.http("")]).well();
    let mut names = seen.lines();
    names.sort_unstable();
    assert_eq!(names, ["d", "f"]);
    let seen = scene.run(&["gfal-ls", "-l", &room.http("")]).well();
    let of = |name: &str| seen.lines().into_iter().find(|line| line.ends_with(name)).unwrap().to_owned();
    assert!(of(" f").contains(" 40 ") && of(" d").starts_with('d'), "{seen:?}");
}

fn ls_tls(scene: &CaseContext) {
    let room = scene.open();
    room.put("f", FORTY);
    assert_eq!(scene.run(&["gfal-ls", &room.https("")]).well().lines(), ["f"]);
    assert_eq!(scene.run(&["gfal-ls", &room.https("").replace("https:", "davs:")]).well().lines(), ["f"]);
}

fn ipv6(scene: &CaseContext) {
    let room = scene.open();
    room.put("f", FORTY);
    let blind = ["-D", "HTTP PLUGIN:INSECURE=true"];
    assert_eq!(scene.run(&[&["gfal-ls"], &blind[..], &[&room.bracketed("")]].concat()).well().lines(), ["f"]);
    let back = format!("file://{}", scene.path("back").display());
    scene.run(&[&["gfal-copy"], &blind[..], &[&room.bracketed("f"), &back]].concat()).well();
    assert_eq!(std::fs::read(scene.path("back")).unwrap(), FORTY);
}

fn stat(scene: &CaseContext) {
    let room = scene.open();
    room.put("f", FORTY);
    let seen = scene.run(&["gfal-stat", &room.http("f")]).well().says("Size: 40").says("regular file");
    let year = std::fs::metadata(room.disk("f")).unwrap().modified().unwrap();
    assert!(year.elapsed().unwrap().as_secs() < 3600);
    seen.keeps_silent_of("Modify: 1970");
    scene.run(&["gfal-stat", &room.http("")]).well().says("directory");
}

fn stat_missing(scene: &CaseContext) {
    scene.run(&["gfal-stat", &scene.open().http("f")]).with(2);
}

fn mkdir(scene: &CaseContext) {
    let room = scene.open();
    scene.run(&["gfal-mkdir", &room.http("d")]).well();
    assert!(room.disk("d").is_dir());
}

fn mkdir_parents(scene: &CaseContext) {
    let room = scene.open();
    scene.run(&["gfal-mkdir", "-p", &room.http("a/b/c")]).well();
    assert!(room.disk("a/b/c").is_dir());
    scene.run(&["gfal-mkdir", "-p", &room.http("a/b/c")]).well();
}

fn rename(scene: &CaseContext) {
    let room = scene.open();
    room.put("f", FORTY);
    scene.run(&["gfal-rename", &room.http("f"), &room.http("g")]).well();
    assert_eq!((room.names(), room.get("g")), (vec!["g".to_owned()], FORTY.to_vec()));
}

fn rm(scene: &CaseContext) {
    let room = scene.open();
    room.put("f", FORTY);
    scene.run(&["gfal-rm", &room.http("f")]).well().says("DELETED");
    assert!(room.names().is_empty());
}

fn rm_tree(scene: &CaseContext) {
    let room = scene.open();
    room.put("t/a", FORTY);
    room.put("t/d/b", FORTY);
    scene.run(&["gfal-rm", "-r", &room.http("t")]).well();
    assert!(room.names().is_empty(), "{:?}", room.names());
}

fn rm_missing(scene: &CaseContext) {
    scene.run(&["gfal-rm", &scene.open().http("f")]).with(2).says("MISSING");
}

fn sum(scene: &CaseContext, algorithm: &str, wanted: &str) {
    let room = scene.open();
    room.put("f", NINE);
    scene.run(&["gfal-sum", &room.http("f"), algorithm]).well().says(&format!(" {wanted}"));
}

fn sum_adler32(scene: &CaseContext) {
    sum(scene, "ADLER32", "091e01de");
}

fn sum_md5(scene: &CaseContext) {
    sum(scene, "MD5", "25f9e794323b453885f5181f1b624d0b");
}

fn sum_crc32c(scene: &CaseContext) {
    sum(scene, "CRC32C", "e3069283");
}

fn cat(scene: &CaseContext) {
    let (room, file) = (scene.open(), scene.write("f", FORTY));
    let words = format!("gfal-save {} < {file}", room.http("f"));
    scene.run(&["sh", "-c", &words]).well();
    assert_eq!(room.get("f"), FORTY);
    let seen = scene.run(&["gfal-cat", &room.http("f")]).well();
    assert_eq!(seen.out.as_bytes(), FORTY);
}

fn token(scene: &CaseContext) {
    let (room, bytes) = (scene.closed(), pattern(1_000_000));
    let file = format!("file://{}", scene.write("f", &bytes));
    let token = scene.token(&["read", "modify"]);
    let with = [("BEARER_TOKEN", token.as_str())];
    scene.run_with(&with, &["gfal-copy", &file, &room.https("f")]).well();
    assert!(room.get("f") == bytes);
    scene.run_with(&with, &["gfal-stat", &room.https("f")]).well().says("Size: 1000000");
    let back = format!("file://{}", scene.path("back").display());
    scene.run_with(&with, &["gfal-copy", &room.https("f"), &back]).well();
    assert!(std::fs::read(scene.path("back")).unwrap() == bytes);
    scene.run_with(&with, &["gfal-rm", &room.https("f")]).well();
    assert!(room.names().is_empty());
}

fn certificate(scene: &CaseContext) {
    let room = scene.closed();
    let file = format!("file://{}", scene.write("f", FORTY));
    let alice = &scene.world.pki.alice;
    let text = |path: &std::path::Path| path.display().to_string();
    let (certificate, key) = (text(&alice.certificate), text(&alice.key));
    let with = [("X509_USER_CERT", certificate.as_str()), ("X509_USER_KEY", key.as_str())];
    scene.run_with(&with, &["gfal-copy", &file, &room.https("f")]).well();
    assert_eq!(room.get("f"), FORTY);
    scene.run_with(&with, &["gfal-stat", &room.https("f")]).well().says("Size: 40");
}

fn no_token(scene: &CaseContext) {
    let room = scene.closed();
    room.put("f", FORTY);
    scene.run(&["gfal-stat", &room.https("f")]).badly();
}
