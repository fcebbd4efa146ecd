//! Clients of WebDAV in Python, as data pipelines use them: webdav4 with fsspec, webdavclient3, and Rucio's own.

use super::FORTY;
use crate::case::Case;
use crate::clients::ClientOutput;
use crate::context::{CaseContext, skip};

const WEBDAV4: &str = "webdav4";
const WEBDAVCLIENT: &str = "webdavclient3";
const RUCIO: &str = "rucio";

pub const CASES: &[Case] = &[
    Case::new(WEBDAV4, "files", "upload, info, exists, download, move, copy, remove", "as it should be", webdav4_files),
    Case::new(WEBDAV4, "fsspec", "fsspec: find, open, cat, rm -r", "names, bytes, gone", fsspec),
    Case::new(WEBDAVCLIENT, "files", "upload, list, info, download, move, clean", "as it should be", webdavclient),
    Case::new(
        WEBDAVCLIENT,
        "trees",
        "push and pull of a directory, clean of it",
        "the same tree; gone",
        webdavclient_trees,
    ),
    Case::new(
        RUCIO,
        "protocol",
        "Rucio's WebDAV: put, exists, stat, ls, get, rename, delete",
        "as it should be",
        rucio,
    ),
];

/// The directory into which set-up installs packages of PyPI.
fn packages() -> String {
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/tools/python").to_owned()
}

/// Runs a script with arguments.
fn python(context: &CaseContext, needs: &str, script: &str, words: &[&str]) -> ClientOutput {
    let packages = packages();
    if !std::path::Path::new(&packages).join(needs).exists() {
        skip(&format!("no {needs} in target/tools/python (scripts/setup.sh installs it)"));
    }
    let script = context.write("script.py", script.as_bytes());
    // Rucio reads a file of settings before it does anything.
    let settings = context.write("rucio.cfg", b"[common]\nmulti_vo = False\n[client]\naccount = test\n");
    let all = [&["/usr/bin/python3", script.as_str()], words].concat();
    let environment =
        [("PYTHONPATH", packages.as_str()), ("PYTHONDONTWRITEBYTECODE", "1"), ("RUCIO_CONFIG", settings.as_str())];
    context.run_with(&environment, &all)
}

fn webdav4_files(context: &CaseContext) {
    let dir = context.open();
    let file = context.write("f", FORTY);
    let script = r#"
import sys
from webdav4.client import Client
client = Client(sys.argv[1])
client.upload_file(sys.argv[2], "f")
assert client.exists("f") and not client.exists("none")
info = client.info("f")
assert info["content_length"] == 40 and info["type"] == "file", info
assert client.isfile("f") and not client.isdir("f")
client.mkdir("d")
client.move("f", "d/g")
client.copy("d/g", "d/h")
assert sorted(client.ls("d", detail=False)) == ["d/g", "d/h"], client.ls("d", detail=False)
client.download_file("d/h", sys.argv[2] + ".back")
client.remove("d")
assert not client.exists("d")
"#;
    python(context, "webdav4", script, &[&dir.http(""), &file]).expect_success();
    assert_eq!(std::fs::read(format!("{file}.back")).unwrap(), FORTY);
    assert!(dir.names().is_empty(), "{:?}", dir.names());
}

fn fsspec(context: &CaseContext) {
    let dir = context.open();
    dir.put("d/e/f", FORTY);
    dir.put("d/g", &FORTY[..4]);
    let script = r#"
import sys
from webdav4.fsspec import WebdavFileSystem
fs = WebdavFileSystem(sys.argv[1])
assert sorted(fs.find("d")) == ["d/e/f", "d/g"], fs.find("d")
assert fs.size("d/e/f") == 40
with fs.open("d/e/f", "rb") as f:
    f.seek(10)
    assert f.read(5) == b"abcde"
assert fs.cat("d/g") == b"0123"
with fs.open("d/new", "wb") as f:
    f.write(b"new")
fs.rm("d/e", recursive=True)
assert sorted(fs.find("d")) == ["d/g", "d/new"], fs.find("d")
"#;
    python(context, "webdav4", script, &[&dir.http("")]).expect_success();
    assert_eq!(dir.get("d/new"), b"new");
    assert!(!dir.has("d/e"));
}

fn webdavclient(context: &CaseContext) {
    let dir = context.open();
    let file = context.write("f", FORTY);
    let script = r#"
import sys
from webdav3.client import Client
client = Client({"webdav_hostname": sys.argv[1].rstrip("/")})
client.upload_sync(remote_path="f", local_path=sys.argv[2])
assert client.check("f") and not client.check("none")
assert client.info("f")["size"] == "40", client.info("f")
client.mkdir("d")
client.move(remote_path_from="f", remote_path_to="d/g")
assert "g" in client.list("d"), client.list("d")
client.download_sync(remote_path="d/g", local_path=sys.argv[2] + ".back")
client.clean("d")
assert not client.check("d")
"#;
    python(context, "webdav3", script, &[&dir.http(""), &file]).expect_success();
    assert_eq!(std::fs::read(format!("{file}.back")).unwrap(), FORTY);
    assert!(dir.names().is_empty(), "{:?}", dir.names());
}

fn webdavclient_trees(context: &CaseContext) {
    let dir = context.open();
    for name in ["t/a", "t/d/e", "t/d/g h"] {
        context.write(name, name.as_bytes());
    }
    let script = r#"
import sys
from webdav3.client import Client
client = Client({"webdav_hostname": sys.argv[1].rstrip("/")})
client.upload_directory(remote_path="t/", local_path=sys.argv[2])
client.download_directory(remote_path="t/", local_path=sys.argv[2] + "-back")
client.clean("t")
assert not client.check("t")
"#;
    let tree = context.path("t").display().to_string();
    python(context, "webdav3", script, &[&dir.http(""), &tree]).expect_success();
    let output = std::process::Command::new("diff").args(["-r", &tree, &format!("{tree}-back")]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(!dir.has("t"));
}

fn rucio(context: &CaseContext) {
    let (dir, token) = (context.closed(), context.token(&["read", "modify"]));
    let file = context.write("f", FORTY);
    let script = r#"
import sys
from urllib.parse import urlparse
import rucio.rse.protocols.webdav as webdav
url, file = urlparse(sys.argv[1]), sys.argv[2]
attributes = {"scheme": url.scheme, "hostname": url.hostname, "port": url.port, "prefix": url.path, "impl": "rucio.rse.protocols.webdav.Default",
              "extended_attributes": None, "domains": {}, "auth_token": sys.argv[3]}
settings = {"deterministic": True, "rse": "TEST", "protocols": [attributes], "credentials": None, "verify_checksum": True,
            "sign_url": None, "domain": ["lan", "wan"], "lfn2pfn_algorithm": "identity", "availability_write": True}
protocol = webdav.Default(attributes, settings)
protocol.connect(credentials={})
at = sys.argv[1].rstrip("/") + "/"
protocol.put("f", at + "d/f", "/".join(file.split("/")[:-1]))
assert protocol.exists(at + "d/f") and not protocol.exists(at + "none")
stat = protocol.stat(at + "d/f")
assert int(stat["filesize"]) == 40, stat
listed = protocol.ls(at + "d/")
assert any(entry.endswith("/f") or entry == "f" for entry in listed), listed
protocol.get(at + "d/f", file + ".back")
protocol.rename(at + "d/f", at + "d/g")
protocol.delete(at + "d/g")
assert not protocol.exists(at + "d/g")
"#;
    python(context, "rucio", script, &[&dir.https(""), &file, &token]).expect_success();
    assert_eq!(std::fs::read(format!("{file}.back")).unwrap(), FORTY);
}
