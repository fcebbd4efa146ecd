//! gfal2's commands on one server: what FTS and Rucio request of a storage.

use super::{FORTY, NINE, pattern};
use crate::case::Case;
use crate::context::CaseContext;

const GFAL: &str = "gfal2";

pub const CASES: &[Case] = &[
    Case::new(GFAL, "ls", "gfal-ls, gfal-ls -l", "names; sizes and dates", ls),
    Case::new(GFAL, "ls-tls", "gfal-ls over TLS", "names", ls_tls),
    Case::new(
        GFAL,
        "ipv6",
        "gfal-ls and -copy from `https://[::1]`, without a check of the certificate",
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

fn ls(context: &CaseContext) {
    let dir = context.open();
    dir.put("f", FORTY);
    dir.make_dir("d");
    let seen = context.run(&["gfal-ls", &dir.http("")]).expect_success();
    let mut names = seen.lines();
    names.sort_unstable();
    assert_eq!(names, ["d", "f"]);
    let seen = context.run(&["gfal-ls", "-l", &dir.http("")]).expect_success();
    let line_of = |name: &str| seen.lines().into_iter().find(|line| line.ends_with(name)).unwrap().to_owned();
    assert!(line_of(" f").contains(" 40 ") && line_of(" d").starts_with('d'), "{seen:?}");
}

fn ls_tls(context: &CaseContext) {
    let dir = context.open();
    dir.put("f", FORTY);
    assert_eq!(context.run(&["gfal-ls", &dir.https("")]).expect_success().lines(), ["f"]);
    assert_eq!(context.run(&["gfal-ls", &dir.https("").replace("https:", "davs:")]).expect_success().lines(), ["f"]);
}

fn ipv6(context: &CaseContext) {
    let dir = context.open();
    dir.put("f", FORTY);
    let insecure = ["-D", "HTTP PLUGIN:INSECURE=true"];
    assert_eq!(
        context.run(&[&["gfal-ls"], &insecure[..], &[&dir.bracketed("")]].concat()).expect_success().lines(),
        ["f"]
    );
    let back = format!("file://{}", context.path("back").display());
    context.run(&[&["gfal-copy"], &insecure[..], &[&dir.bracketed("f"), &back]].concat()).expect_success();
    assert_eq!(std::fs::read(context.path("back")).unwrap(), FORTY);
}

fn stat(context: &CaseContext) {
    let dir = context.open();
    dir.put("f", FORTY);
    let seen = context
        .run(&["gfal-stat", &dir.http("f")])
        .expect_success()
        .expect_text("Size: 40")
        .expect_text("regular file");
    let year = std::fs::metadata(dir.disk("f")).unwrap().modified().unwrap();
    assert!(year.elapsed().unwrap().as_secs() < 3600);
    seen.expect_without("Modify: 1970");
    context.run(&["gfal-stat", &dir.http("")]).expect_success().expect_text("directory");
}

fn stat_missing(context: &CaseContext) {
    context.run(&["gfal-stat", &context.open().http("f")]).expect_code(2);
}

fn mkdir(context: &CaseContext) {
    let dir = context.open();
    context.run(&["gfal-mkdir", &dir.http("d")]).expect_success();
    assert!(dir.disk("d").is_dir());
}

fn mkdir_parents(context: &CaseContext) {
    let dir = context.open();
    context.run(&["gfal-mkdir", "-p", &dir.http("a/b/c")]).expect_success();
    assert!(dir.disk("a/b/c").is_dir());
    context.run(&["gfal-mkdir", "-p", &dir.http("a/b/c")]).expect_success();
}

fn rename(context: &CaseContext) {
    let dir = context.open();
    dir.put("f", FORTY);
    context.run(&["gfal-rename", &dir.http("f"), &dir.http("g")]).expect_success();
    assert_eq!((dir.names(), dir.get("g")), (vec!["g".to_owned()], FORTY.to_vec()));
}

fn rm(context: &CaseContext) {
    let dir = context.open();
    dir.put("f", FORTY);
    context.run(&["gfal-rm", &dir.http("f")]).expect_success().expect_text("DELETED");
    assert!(dir.names().is_empty());
}

fn rm_tree(context: &CaseContext) {
    let dir = context.open();
    dir.put("t/a", FORTY);
    dir.put("t/d/b", FORTY);
    context.run(&["gfal-rm", "-r", &dir.http("t")]).expect_success();
    assert!(dir.names().is_empty(), "{:?}", dir.names());
}

fn rm_missing(context: &CaseContext) {
    context.run(&["gfal-rm", &context.open().http("f")]).expect_code(2).expect_text("MISSING");
}

fn sum(context: &CaseContext, algorithm: &str, wanted: &str) {
    let dir = context.open();
    dir.put("f", NINE);
    context.run(&["gfal-sum", &dir.http("f"), algorithm]).expect_success().expect_text(&format!(" {wanted}"));
}

fn sum_adler32(context: &CaseContext) {
    sum(context, "ADLER32", "091e01de");
}

fn sum_md5(context: &CaseContext) {
    sum(context, "MD5", "25f9e794323b453885f5181f1b624d0b");
}

fn sum_crc32c(context: &CaseContext) {
    sum(context, "CRC32C", "e3069283");
}

fn cat(context: &CaseContext) {
    let (dir, file) = (context.open(), context.write("f", FORTY));
    let words = format!("gfal-save {} < {file}", dir.http("f"));
    context.run(&["sh", "-c", &words]).expect_success();
    assert_eq!(dir.get("f"), FORTY);
    let seen = context.run(&["gfal-cat", &dir.http("f")]).expect_success();
    assert_eq!(seen.out.as_bytes(), FORTY);
}

fn token(context: &CaseContext) {
    let (dir, bytes) = (context.closed(), pattern(1_000_000));
    let file = format!("file://{}", context.write("f", &bytes));
    let token = context.token(&["read", "modify"]);
    let with = [("BEARER_TOKEN", token.as_str())];
    context.run_with(&with, &["gfal-copy", &file, &dir.https("f")]).expect_success();
    assert!(dir.get("f") == bytes);
    context.run_with(&with, &["gfal-stat", &dir.https("f")]).expect_success().expect_text("Size: 1000000");
    let back = format!("file://{}", context.path("back").display());
    context.run_with(&with, &["gfal-copy", &dir.https("f"), &back]).expect_success();
    assert!(std::fs::read(context.path("back")).unwrap() == bytes);
    context.run_with(&with, &["gfal-rm", &dir.https("f")]).expect_success();
    assert!(dir.names().is_empty());
}

fn certificate(context: &CaseContext) {
    let dir = context.closed();
    let file = format!("file://{}", context.write("f", FORTY));
    let alice = &context.test_bed.pki.alice;
    let text = |path: &std::path::Path| path.display().to_string();
    let (certificate, key) = (text(&alice.certificate), text(&alice.key));
    let with = [("X509_USER_CERT", certificate.as_str()), ("X509_USER_KEY", key.as_str())];
    context.run_with(&with, &["gfal-copy", &file, &dir.https("f")]).expect_success();
    assert_eq!(dir.get("f"), FORTY);
    context.run_with(&with, &["gfal-stat", &dir.https("f")]).expect_success().expect_text("Size: 40");
}

fn no_token(context: &CaseContext) {
    let dir = context.closed();
    dir.put("f", FORTY);
    context.run(&["gfal-stat", &dir.https("f")]).expect_failure();
}
