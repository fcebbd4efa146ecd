//! Stock XRootD clients over their own protocol: xrdcp, xrdfs, gfal2 with its root plug-in.

use super::{FORTY, NINE, pattern};
use crate::case::Case;
use crate::context::{CaseContext, ServerDir};

const XRDCP: &str = "xrdcp-root";
const XRDFS: &str = "xrdfs-root";
const GFAL: &str = "gfal2-root";

pub const CASES: &[Case] = &[
    Case::new(XRDCP, "get", "xrdcp from root://, in clear text", "the file", get),
    Case::new(XRDCP, "get-tls", "xrdcp from roots://", "the file", get_tls),
    Case::new(
        XRDCP,
        "get-plain-reads",
        "xrdcp without page checksums, in clear text and over TLS",
        "the file",
        get_plain,
    ),
    Case::new(XRDCP, "get-streams", "xrdcp -S 4, in clear text and over TLS", "the file", get_streams),
    Case::new(XRDCP, "get-empty", "xrdcp of an empty file, both ways", "an empty file", empty),
    Case::new(XRDCP, "get-missing", "xrdcp of nothing", "exit code 54", get_missing),
    Case::new(XRDCP, "put", "xrdcp to root:// and to roots://", "the file, with its digest", put),
    Case::new(XRDCP, "put-plain-writes", "xrdcp to root:// without page checksums", "the file", put_plain),
    Case::new(XRDCP, "put-exists", "xrdcp onto a file, without and with -f", "refused; replaced", put_exists),
    Case::new(XRDCP, "put-deep", "xrdcp -p into directories that do not exist", "the file", put_deep),
    Case::new(XRDCP, "put-broken", "xrdcp that is killed half-way", "no file", put_broken),
    Case::new(XRDCP, "tree", "xrdcp -r of a directory, both ways", "all files", tree),
    Case::new(XRDCP, "checksum", "xrdcp --cksum adler32:source, crc32c, md5", "compared", checksum),
    Case::new(XRDCP, "token", "xrdcp with BEARER_TOKEN over roots://", "the file", token),
    Case::new(XRDCP, "token-in-path", "xrdcp of root://…?authz=Bearer%20…", "the file", token_in_path),
    Case::new(XRDCP, "no-token", "xrdcp without", "fails", no_token),
    Case::new(
        XRDCP,
        "third-party",
        "xrdcp --tpc only from xrootd to us, from us to xrootd, and within us",
        "the file, between the servers",
        third_party,
    ),
    Case::new(
        XRDCP,
        "third-party-cautious",
        "xrdcp --tpc only to a node that dials no local address",
        "refused, no file",
        third_party_cautious,
    ),
    Case::new(
        XRDCP,
        "third-party-delegate",
        "xrdcp --tpc delegate first, which a node does not take",
        "the file (by the client)",
        third_party_delegate,
    ),
    Case::new(XRDFS, "ls", "xrdfs ls, ls -l", "names; sizes", ls),
    Case::new(XRDFS, "ls-many", "xrdfs ls of 5,000 files", "all names", ls_many),
    Case::new(XRDFS, "stat", "xrdfs stat of a file, a directory, the root", "sizes and flags", stat),
    Case::new(XRDFS, "locate", "xrdfs locate", "this server", locate),
    Case::new(XRDFS, "mkdir", "xrdfs mkdir, mkdir -p", "directories", mkdir),
    Case::new(XRDFS, "mv", "xrdfs mv of a file and of a directory", "another name", rename),
    Case::new(XRDFS, "rm", "xrdfs rm, rmdir", "gone", remove),
    Case::new(XRDFS, "chmod", "xrdfs chmod", "the mode", chmod),
    Case::new(XRDFS, "truncate", "xrdfs truncate", "the length", truncate),
    Case::new(XRDFS, "cat", "xrdfs cat, tail -c 5", "the bytes", cat),
    Case::new(XRDFS, "checksum", "xrdfs query checksum", "adler32, crc32c", query_checksum),
    Case::new(XRDFS, "space", "xrdfs spaceinfo, query space, statvfs", "free and used bytes", space),
    Case::new(XRDFS, "config", "xrdfs query config", "settings, names that are not known", config),
    Case::new(XRDFS, "xattr", "xrdfs xattr set, get, list, del", "the values", xattr),
    Case::new(XRDFS, "escape", "paths with `..`", "refused", escape),
    Case::new(GFAL, "ls", "gfal-ls -l", "names and sizes", gfal_ls),
    Case::new(GFAL, "stat", "gfal-stat", "the size", gfal_stat),
    Case::new(GFAL, "mkdir", "gfal-mkdir -p", "directories", gfal_mkdir),
    Case::new(GFAL, "copy", "gfal-copy -K ADLER32 to us and back", "the file", gfal_copy),
    Case::new(GFAL, "sum", "gfal-sum ADLER32", "091e01de", gfal_sum),
    Case::new(GFAL, "rename", "gfal-rename, gfal-rm", "another name; gone", gfal_rename),
];

const XRD: [&str; 4] = ["xrdcp", "--nopbar", "-s", "-f"];

impl ServerDir<'_> {
    /// The server, for xrdfs.
    fn server_url(&self) -> String {
        format!("root://{}", self.address())
    }
}

fn both<'a>(dir: &ServerDir<'_>, path: &'a str) -> [(String, &'a str); 2] {
    [(dir.root(path), "clear"), (dir.roots(path), "tls")]
}

fn fetch(context: &CaseContext, more: &[(&str, &str)], options: &[&str], url: &str, name: &str) -> Vec<u8> {
    let path = context.path(name).display().to_string();
    context.run_with(more, &[&XRD[..], options, &[url, &path]].concat()).expect_success();
    std::fs::read(path).unwrap()
}

fn get(context: &CaseContext) {
    let (dir, bytes) = (context.open(), pattern(20_000_000));
    dir.put("f", &bytes);
    assert!(fetch(context, &[], &[], &dir.root("f"), "g") == bytes);
}

fn get_tls(context: &CaseContext) {
    let (dir, bytes) = (context.open(), pattern(20_000_000));
    dir.put("f", &bytes);
    assert!(fetch(context, &[], &[], &dir.roots("f"), "g") == bytes);
}

fn get_plain(context: &CaseContext) {
    let (dir, bytes) = (context.open(), pattern(20_000_001));
    dir.put("f", &bytes);
    for (url, name) in both(&dir, "f") {
        assert!(fetch(context, &[("XRD_CPUSEPGWRTRD", "0")], &[], &url, name) == bytes, "{name}");
    }
}

fn get_streams(context: &CaseContext) {
    let (dir, bytes) = (context.open(), pattern(100_000_000));
    dir.put("f", &bytes);
    for (url, name) in both(&dir, "f") {
        assert!(fetch(context, &[], &["-S", "4"], &url, name) == bytes, "{name}");
    }
}

fn empty(context: &CaseContext) {
    let dir = context.open();
    dir.put("f", b"");
    assert!(fetch(context, &[], &[], &dir.root("f"), "g").is_empty());
    let path = context.path("g").display().to_string();
    context.run(&[&XRD[..], &[&path, &dir.root("h")]].concat()).expect_success();
    assert!(dir.get("h").is_empty());
}

fn get_missing(context: &CaseContext) {
    let path = context.path("f").display().to_string();
    context.run(&[&XRD[..], &[&context.open().root("f"), &path]].concat()).expect_code(54);
}

fn put(context: &CaseContext) {
    let (dir, bytes) = (context.open(), pattern(20_000_000));
    let file = context.write("f", &bytes);
    for (url, name) in [(dir.root("clear"), "clear"), (dir.roots("tls"), "tls")] {
        context.run(&[&XRD[..], &["--cksum", "adler32:source", &file, &url]].concat()).expect_success();
        assert!(dir.get(name) == bytes, "{name}");
    }
    assert_eq!(dir.names(), ["clear", "tls"], "no unfinished file is left");
}

fn put_plain(context: &CaseContext) {
    let (dir, bytes) = (context.open(), pattern(20_000_000));
    let file = context.write("f", &bytes);
    let to = dir.root("g");
    let words = [&XRD[..], &[&file, &to]].concat();
    context.run_with(&[("XRD_CPUSEPGWRTRD", "0")], &words).expect_success();
    assert!(dir.get("g") == bytes);
}

fn put_exists(context: &CaseContext) {
    let dir = context.open();
    dir.put("f", FORTY);
    let file = context.write("g", NINE);
    context.run(&["xrdcp", "--nopbar", "-s", &file, &dir.root("f")]).expect_failure();
    assert_eq!(dir.get("f"), FORTY);
    context.run(&[&XRD[..], &[&file, &dir.root("f")]].concat()).expect_success();
    assert_eq!(dir.get("f"), NINE);
}

fn put_deep(context: &CaseContext) {
    let dir = context.open();
    let file = context.write("f", NINE);
    context.run(&[&XRD[..], &["-p", &file, &dir.root("a/b/c")]].concat()).expect_success();
    assert_eq!(dir.get("a/b/c"), NINE);
}

fn put_broken(context: &CaseContext) {
    let dir = context.open();
    let file = context.write("f", &pattern(300_000_000));
    let client = context.begin(&[&XRD[..], &["--xrate", "20m", &file, &dir.root("g")]].concat());
    crate::wait::until("the file is being written", crate::wait::LONG, || !dir.names().is_empty());
    drop(client);
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(!dir.has("g"), "half a file has no name");
}

fn tree(context: &CaseContext) {
    let dir = context.open();
    for name in ["t/a", "t/b c", "t/d/e"] {
        context.write(name, name.as_bytes());
    }
    let (from, back) = (context.path("t").display().to_string(), context.path("back").display().to_string());
    std::fs::create_dir(&back).unwrap();
    context.run(&[&XRD[..], &["-r", &from, &dir.root("")]].concat()).expect_success();
    assert_eq!((dir.get("t/b c"), dir.get("t/d/e")), (b"t/b c".to_vec(), b"t/d/e".to_vec()));
    context.run(&[&XRD[..], &["-r", &dir.root("t"), &back]].concat()).expect_success();
    assert_eq!(std::fs::read(context.path("back/t/d/e")).unwrap(), b"t/d/e");
}

fn checksum(context: &CaseContext) {
    let dir = context.open();
    dir.put("f", &pattern(3_000_000));
    for kind in ["adler32", "crc32c", "md5"] {
        let option = format!("{kind}:source");
        fetch(context, &[], &["--cksum", &option], &dir.root("f"), kind);
    }
}

fn token(context: &CaseContext) {
    let dir = context.closed();
    let token = context.token(&["read", "create", "modify"]);
    let file = context.write("f", NINE);
    let bearer = [("BEARER_TOKEN", token.as_str())];
    context.run_with(&bearer, &[&XRD[..], &[&file, &dir.roots("f")]].concat()).expect_success();
    assert_eq!(fetch(context, &bearer, &[], &dir.roots("f"), "g"), NINE);
}

fn token_in_path(context: &CaseContext) {
    let dir = context.closed();
    dir.put("f", NINE);
    let url = format!("{}?authz=Bearer%20{}", dir.roots("f"), context.token(&["read"]));
    assert_eq!(fetch(context, &[], &[], &url, "g"), NINE);
}

fn no_token(context: &CaseContext) {
    let dir = context.closed();
    dir.put("f", NINE);
    let path = context.path("g").display().to_string();
    for url in [dir.root("f"), dir.roots("f")] {
        context.run(&[&XRD[..], &[&url, &path]].concat()).expect_failure();
    }
}

fn third_party(context: &CaseContext) {
    let (ours, theirs, bytes) = (context.open(), context.stock(), pattern(20_000_000));
    let copy = |from: &str, to: &str| {
        context.run(&[&XRD[..], &["--tpc", "only", "--cksum", "adler32:source", from, to]].concat()).expect_success();
    };
    theirs.put("f", &bytes);
    copy(&theirs.root("f"), &ours.root("g"));
    assert!(ours.get("g") == bytes, "from xrootd to us");
    copy(&ours.root("g"), &theirs.root("h"));
    assert!(theirs.get("h") == bytes, "from us to xrootd");
    copy(&ours.root("g"), &ours.root("i"));
    assert!(ours.get("i") == bytes, "within us");
    ours.put("empty", b"");
    copy(&ours.root("empty"), &ours.root("j"));
    assert!(ours.get("j").is_empty());
}

fn third_party_cautious(context: &CaseContext) {
    let (cautious, theirs) = (context.cautious(), context.stock());
    theirs.put("f", NINE);
    let (from, to) = (theirs.root("f"), cautious.root("g"));
    context.run(&[&XRD[..], &["--tpc", "only", &from, &to]].concat()).expect_failure();
    assert!(!cautious.has("g"), "nothing is left");
}

fn third_party_delegate(context: &CaseContext) {
    let (ours, theirs) = (context.open(), context.stock());
    theirs.put("f", NINE);
    let (from, to) = (theirs.root("f"), ours.root("g"));
    context.run(&[&XRD[..], &["--tpc", "delegate", "first", &from, &to]].concat()).expect_success();
    assert_eq!(ours.get("g"), NINE);
}

/// Runs xrdfs on a server.
fn xrdfs(context: &CaseContext, dir: &ServerDir<'_>, words: &[&str]) -> crate::clients::ClientOutput {
    context.run(&[&["xrdfs", &dir.server_url()], words].concat())
}

fn ls(context: &CaseContext) {
    let dir = context.open();
    dir.put("f", FORTY);
    dir.make_dir("d");
    let seen = xrdfs(context, &dir, &["ls", &dir.target("")]).expect_success();
    assert!(seen.lines().iter().any(|line| line.ends_with("/f")) && seen.lines().len() == 2, "{seen:?}");
    let seen = xrdfs(context, &dir, &["ls", "-l", &dir.target("")]).expect_success();
    let line_of = |name: &str| seen.lines().into_iter().find(|line| line.ends_with(name)).unwrap().to_owned();
    assert!(line_of("/f").contains(" 40 ") && line_of("/d").starts_with('d'), "{seen:?}");
    xrdfs(context, &dir, &["ls", "/"]).expect_success().expect_text("/data");
}

fn ls_many(context: &CaseContext) {
    let dir = context.open();
    for at in 0..5_000 {
        dir.put(&format!("a file with a long name {at:05}"), b"");
    }
    for words in [&["ls"][..], &["ls", "-l"]] {
        let seen = xrdfs(context, &dir, &[words, &[&dir.target("")]].concat()).expect_success();
        assert_eq!(seen.lines().len(), 5_000);
    }
}

fn stat(context: &CaseContext) {
    let dir = context.open();
    dir.put("f", FORTY);
    dir.make_dir("d");
    xrdfs(context, &dir, &["stat", &dir.target("f")]).expect_success().expect_text("Size:   40");
    xrdfs(context, &dir, &["stat", &dir.target("d")]).expect_success().expect_text("IsDir");
    xrdfs(context, &dir, &["stat", "/"]).expect_success().expect_text("IsDir");
    xrdfs(context, &dir, &["stat", &dir.target("none")]).expect_failure();
}

fn locate(context: &CaseContext) {
    let dir = context.open();
    dir.put("f", FORTY);
    xrdfs(context, &dir, &["locate", &dir.target("f")]).expect_success().expect_text(&dir.address());
}

fn mkdir(context: &CaseContext) {
    let dir = context.open();
    xrdfs(context, &dir, &["mkdir", &dir.target("a")]).expect_success();
    xrdfs(context, &dir, &["mkdir", &dir.target("b/c")]).expect_failure();
    xrdfs(context, &dir, &["mkdir", "-p", &dir.target("b/c")]).expect_success();
    assert!(dir.disk("a").is_dir() && dir.disk("b/c").is_dir());
}

fn rename(context: &CaseContext) {
    let dir = context.open();
    dir.put("f", FORTY);
    dir.put("d/g", NINE);
    xrdfs(context, &dir, &["mv", &dir.target("f"), &dir.target("d/h")]).expect_success();
    xrdfs(context, &dir, &["mv", &dir.target("d"), &dir.target("e")]).expect_success();
    assert_eq!((dir.get("e/h"), dir.get("e/g")), (FORTY.to_vec(), NINE.to_vec()));
    xrdfs(context, &dir, &["mv", &dir.target("e"), &dir.target("e/inside")]).expect_failure();
}

fn remove(context: &CaseContext) {
    let dir = context.open();
    dir.put("d/f", FORTY);
    xrdfs(context, &dir, &["rmdir", &dir.target("d")]).expect_failure();
    xrdfs(context, &dir, &["rm", &dir.target("d/f")]).expect_success();
    xrdfs(context, &dir, &["rmdir", &dir.target("d")]).expect_success();
    assert!(!dir.has("d"));
}

fn chmod(context: &CaseContext) {
    use std::os::unix::fs::PermissionsExt;
    let dir = context.open();
    dir.put("f", FORTY);
    xrdfs(context, &dir, &["chmod", &dir.target("f"), "rw-r-----"]).expect_success();
    assert_eq!(std::fs::metadata(dir.disk("f")).unwrap().permissions().mode() & 0o777, 0o640);
}

fn truncate(context: &CaseContext) {
    let dir = context.open();
    dir.put("f", FORTY);
    xrdfs(context, &dir, &["truncate", &dir.target("f"), "9"]).expect_success();
    assert_eq!(dir.get("f"), &FORTY[..9]);
}

fn cat(context: &CaseContext) {
    let dir = context.open();
    dir.put("f", NINE);
    xrdfs(context, &dir, &["cat", &dir.target("f")]).expect_success().expect_text("123456789");
    xrdfs(context, &dir, &["tail", "-c", "5", &dir.target("f")]).expect_success().expect_text("56789");
}

fn query_checksum(context: &CaseContext) {
    let dir = context.open();
    dir.put("f", NINE);
    xrdfs(context, &dir, &["query", "checksum", &dir.target("f")]).expect_success().expect_text("adler32 091e01de");
    let crc = format!("{}?cks.type=crc32c", dir.target("f"));
    xrdfs(context, &dir, &["query", "checksum", &crc]).expect_success().expect_text("crc32c e3069283");
    let unknown = format!("{}?cks.type=sum", dir.target("f"));
    xrdfs(context, &dir, &["query", "checksum", &unknown]).expect_failure();
}

fn space(context: &CaseContext) {
    let dir = context.open();
    xrdfs(context, &dir, &["spaceinfo", &dir.target("")]).expect_success().expect_text("Free");
    xrdfs(context, &dir, &["query", "space", &dir.target("")]).expect_success().expect_text("oss.free=");
    xrdfs(context, &dir, &["statvfs", &dir.target("")]).expect_success().expect_text("largest RW space");
}

fn config(context: &CaseContext) {
    let dir = context.open();
    let seen = xrdfs(context, &dir, &["query", "config", "bind_max", "readv_iov_max", "nothing"]).expect_success();
    let lines: Vec<&str> = seen.lines().into_iter().filter(|line| !line.is_empty()).collect();
    assert_eq!(lines, ["15", "1024", "nothing"]);
    xrdfs(context, &dir, &["query", "config", "chksum"]).expect_success().expect_text("adler32");
}

fn xattr(context: &CaseContext) {
    let dir = context.open();
    dir.put("f", NINE);
    xrdfs(context, &dir, &["xattr", &dir.target("f"), "set", "run=seven"]).expect_success();
    xrdfs(context, &dir, &["xattr", &dir.target("f"), "get", "run"]).expect_success().expect_text("seven");
    xrdfs(context, &dir, &["xattr", &dir.target("f"), "list"]).expect_success().expect_text("run");
    xrdfs(context, &dir, &["xattr", &dir.target("f"), "del", "run"]).expect_success();
    xrdfs(context, &dir, &["xattr", &dir.target("f"), "get", "run"]).expect_without("seven");
}

fn escape(context: &CaseContext) {
    let dir = context.open();
    for path in ["/data/../../../etc/hostname", "/../etc/hostname", "/etc/hostname"] {
        xrdfs(context, &dir, &["cat", path]).expect_failure();
    }
}

fn gfal_ls(context: &CaseContext) {
    let dir = context.open();
    dir.put("f", FORTY);
    let seen = context.run(&["gfal-ls", "-l", &dir.root("")]).expect_success();
    assert!(seen.lines()[0].contains(" 40 "), "{seen:?}");
}

fn gfal_stat(context: &CaseContext) {
    let dir = context.open();
    dir.put("f", FORTY);
    context.run(&["gfal-stat", &dir.root("f")]).expect_success().expect_text("Size: 40");
    context.run(&["gfal-stat", &dir.root("none")]).expect_code(2);
}

fn gfal_mkdir(context: &CaseContext) {
    let dir = context.open();
    context.run(&["gfal-mkdir", "-p", &dir.root("a/b")]).expect_success();
    assert!(dir.disk("a/b").is_dir());
}

fn gfal_copy(context: &CaseContext) {
    let (dir, bytes) = (context.open(), pattern(5_000_000));
    let file = context.write("f", &bytes);
    let (from, back) = (format!("file://{file}"), format!("file://{}", context.path("g").display()));
    // It makes directories whether it is asked to or not.
    context.run(&["gfal-copy", "-K", "ADLER32", &from, &dir.root("deep/f")]).expect_success();
    assert!(dir.get("deep/f") == bytes);
    context.run(&["gfal-copy", "-K", "ADLER32", &dir.root("deep/f"), &back]).expect_success();
    assert!(std::fs::read(context.path("g")).unwrap() == bytes);
}

fn gfal_sum(context: &CaseContext) {
    let dir = context.open();
    dir.put("f", NINE);
    context.run(&["gfal-sum", &dir.root("f"), "ADLER32"]).expect_success().expect_text("091e01de");
}

fn gfal_rename(context: &CaseContext) {
    let dir = context.open();
    dir.put("f", NINE);
    context.run(&["gfal-rename", &dir.root("f"), &dir.root("g")]).expect_success();
    assert_eq!(dir.get("g"), NINE);
    context.run(&["gfal-rm", &dir.root("g")]).expect_success();
    assert!(!dir.has("g"));
}
