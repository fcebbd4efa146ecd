//! A stock xrootd before a node: it redirects clients to the node, or keeps copies of its files. And XRootD's Python bindings.

use super::{FORTY, NINE, pattern};
use crate::case::Case;
use crate::clients::ClientOutput;
use crate::context::{CaseContext, ServerDir};
use crate::xrootd::{Xrootd, XrootdRole};

const FRONT: &str = "xrootd-front";
const PYTHON: &str = "python3-xrootd";

pub const CASES: &[Case] = &[
    Case::new(FRONT, "redirect-get", "xrdcp from a node by an xrootd that redirects to it", "the file", redirect_get),
    Case::new(FRONT, "redirect-put", "xrdcp to a node by an xrootd that redirects to it", "the file", redirect_put),
    Case::new(FRONT, "redirect-ours", "cp from a node by an xrootd that redirects to it", "the file", redirect_ours),
    Case::new(
        FRONT,
        "cache",
        "xrdcp twice by an xrootd that caches files of a node",
        "the file, and a copy of it",
        cache,
    ),
    Case::new(FRONT, "cache-missing", "xrdcp of nothing by such a cache", "fails", cache_missing),
    Case::new(PYTHON, "file", "File: open, write, read, vector_read, stat, truncate, sync", "as it should be", file),
    Case::new(PYTHON, "lines", "File: readlines, readchunks", "the lines; the bytes", lines),
    Case::new(
        PYTHON,
        "file-system",
        "FileSystem: mkdir, dirlist, stat, mv, query, locate, chmod, rm, rmdir",
        "as it should be",
        file_system,
    ),
    Case::new(PYTHON, "copy", "CopyProcess: two files in, two files out", "the files", copy),
    Case::new(PYTHON, "missing", "open and stat of nothing", "error 3011", missing),
];

/// A URL at a server before the one of a directory.
fn at(front: &Xrootd, dir: &ServerDir<'_>, path: &str) -> String {
    format!("root://127.0.0.1:{}/{}", front.port, dir.target(path))
}

fn before<'a>(context: &'a CaseContext<'a>, role: fn(u16) -> XrootdRole<'static>) -> (Xrootd, ServerDir<'a>) {
    let dir = context.open();
    let front = Xrootd::start(&context.test_bed.pki, role(dir.port()));
    (front, dir)
}

fn xrdcp(context: &CaseContext, from: &str, to: &str) -> ClientOutput {
    context.run(&["xrdcp", "--nopbar", "-s", "-f", from, to])
}

fn redirect_get(context: &CaseContext) {
    let (front, dir) = before(context, XrootdRole::Redirector);
    let (bytes, path) = (pattern(20_000_000), context.path("g").display().to_string());
    dir.put("f", &bytes);
    xrdcp(context, &at(&front, &dir, "f"), &path).expect_success();
    assert!(std::fs::read(path).unwrap() == bytes);
}

fn redirect_put(context: &CaseContext) {
    let (front, dir) = before(context, XrootdRole::Redirector);
    let bytes = pattern(20_000_000);
    let file = context.write("f", &bytes);
    xrdcp(context, &file, &at(&front, &dir, "new")).expect_success();
    assert!(dir.get("new") == bytes);
}

fn redirect_ours(context: &CaseContext) {
    let (front, dir) = before(context, XrootdRole::Redirector);
    let (bytes, path) = (pattern(20_000_000), context.path("g").display().to_string());
    dir.put("f", &bytes);
    let state = context.path("state").display().to_string();
    context.run(&[crate::node::LONGHAUL, "--state", &state, "cp", &at(&front, &dir, "f"), &path]).expect_success();
    assert!(std::fs::read(path).unwrap() == bytes);
}

fn cache(context: &CaseContext) {
    let (front, dir) = before(context, XrootdRole::Cache);
    let bytes = pattern(20_000_000);
    dir.put("f", &bytes);
    for name in ["first", "second"] {
        let path = context.path(name).display().to_string();
        xrdcp(context, &at(&front, &dir, "f"), &path).expect_success();
        assert!(std::fs::read(path).unwrap() == bytes, "{name}");
    }
    let copy = front.files().join(dir.target("f").trim_start_matches('/'));
    assert!(copy.exists(), "the cache has {}: {}", copy.display(), front.log());
}

fn cache_missing(context: &CaseContext) {
    let (front, dir) = before(context, XrootdRole::Cache);
    let path = context.path("g").display().to_string();
    xrdcp(context, &at(&front, &dir, "none"), &path).expect_failure();
}

/// Runs a script with Debian's Python, which has the bindings.
fn python(context: &CaseContext, script: &str, words: &[&str]) {
    let head = "import sys\nfrom XRootD import client\nfrom XRootD.client.flags import *\n\
                def good(answer):\n    assert answer[0].ok, answer[0].message\n    return answer[1]\n";
    let script = context.write("script.py", format!("{head}{script}").as_bytes());
    context.run(&[&["/usr/bin/python3", script.as_str()], words].concat()).expect_success();
}

fn file(context: &CaseContext) {
    let dir = context.open();
    let script = r#"
url = sys.argv[1]
with client.File() as f:
    good(f.open(url, OpenFlags.NEW | OpenFlags.UPDATE | OpenFlags.MAKEPATH))
    good(f.write(b"0123456789", 0))
    good(f.write(b"abc", 10))
    good(f.sync())
    # Without force the bindings answer with what the open returned.
    assert good(f.stat(force=True)).size == 13
    assert good(f.read(3, 4)) == b"3456"
    good(f.truncate(12))
with client.File() as f:
    good(f.open(url, OpenFlags.READ))
    assert good(f.read()) == b"0123456789ab"
    chunks = good(f.vector_read([(0, 2), (10, 2)])).chunks
    assert [chunk.buffer for chunk in chunks] == [b"01", b"ab"]
"#;
    for (url, name) in [(dir.root("deep/clear"), "deep/clear"), (dir.roots("deep/tls"), "deep/tls")] {
        python(context, script, &[&url]);
        assert_eq!(dir.get(name), b"0123456789ab", "{name}");
    }
}

fn lines(context: &CaseContext) {
    let dir = context.open();
    dir.put("f", b"one\ntwo\nthree");
    let script = r#"
with client.File() as f:
    good(f.open(sys.argv[1]))
    assert [bytes(line) if isinstance(line, (bytes, bytearray)) else line.encode() for line in f.readlines()] == [b"one\n", b"two\n", b"three"]
    assert b"".join(chunk for chunk in f.readchunks(0, 4)) == b"one\ntwo\nthree"
"#;
    python(context, script, &[&dir.root("f")]);
}

fn file_system(context: &CaseContext) {
    let dir = context.open();
    dir.put("f", NINE);
    let script = r#"
fs = client.FileSystem(sys.argv[1])
base = sys.argv[2]
good(fs.mkdir(base + "d/e", MkDirFlags.MAKEPATH))
names = sorted(entry.name for entry in good(fs.dirlist(base, DirListFlags.STAT)))
assert names == ["d", "f"], names
assert good(fs.stat(base + "f")).size == 9
good(fs.mv(base + "f", base + "d/g"))
answer = good(fs.query(QueryCode.CHECKSUM, base + "d/g"))
assert answer.rstrip(b"\0") == b"adler32 091e01de", answer
assert len(list(good(fs.locate(base + "d/g", OpenFlags.READ)))) == 1
good(fs.chmod(base + "d/g", AccessMode.UR | AccessMode.UW))
good(fs.rm(base + "d/g"))
good(fs.rmdir(base + "d/e"))
good(fs.ping())
"#;
    python(context, script, &[&format!("root://{}", dir.address()), &dir.target("")]);
    assert_eq!(dir.names(), ["d"]);
}

fn copy(context: &CaseContext) {
    let (dir, bytes) = (context.open(), pattern(5_000_000));
    let (first, second) = (context.write("a", &bytes), context.write("b", FORTY));
    let (a, b) = (dir.root("a"), dir.root("b"));
    let (a_back, b_back) = (context.path("a.back").display().to_string(), context.path("b.back").display().to_string());
    let script = r#"
for pairs in ([(1, 3), (2, 4)], [(3, 5), (4, 6)]):
    process = client.CopyProcess()
    for source, target in pairs:
        process.add_job(sys.argv[source], sys.argv[target])
    status = process.prepare()
    assert status.ok, status.message
    status, results = process.run()
    assert status.ok, status.message
"#;
    python(context, script, &[&first, &second, &a, &b, &a_back, &b_back]);
    assert!(dir.get("a") == bytes && std::fs::read(&a_back).unwrap() == bytes);
    assert_eq!((dir.get("b"), std::fs::read(&b_back).unwrap()), (FORTY.to_vec(), FORTY.to_vec()));
}

fn missing(context: &CaseContext) {
    let dir = context.open();
    let script = r#"
with client.File() as f:
    status, _ = f.open(sys.argv[1])
    assert not status.ok and status.errno == 3011, status.message
status, _ = client.FileSystem(sys.argv[2]).stat(sys.argv[3])
assert not status.ok and status.errno == 3011, status.message
"#;
    python(context, script, &[&dir.root("none"), &format!("root://{}", dir.address()), &dir.target("none")]);
}
