//! Files on tape: a node offers the WLCG tape REST API over a simulated library, and a hub brings files to disk before it orders
//! their transfer.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::hub::{Hub, Member};
use crate::node::{Node, Setup};
use crate::tree::pattern;
use crate::wait::{LONG, until, until_some};

/// A library, and what is on its cartridges.
struct Library(TempDir);

impl Library {
    fn new(drives: u32, mount_s: f64, bytes_s: f64) -> Library {
        let dir = tempfile::tempdir().unwrap();
        let config = json!({"drives": drives, "mount_s": mount_s, "bytes_s": bytes_s});
        fs::write(dir.path().join("config.json"), config.to_string()).unwrap();
        Library(dir)
    }

    /// The program that simulates it, for `--export NAME=DIR:rw,tape=…`.
    fn program(&self) -> String {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/tape_library.py");
        format!("python3 {script} {}", self.0.path().display())
    }

    fn tape(&self, path: &str) -> PathBuf {
        self.0.path().join("tape").join(path)
    }

    fn put(&self, path: &str, bytes: &[u8]) {
        let file = self.tape(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, bytes).unwrap();
    }

    /// The events of one kind in the log of its drives.
    fn log(&self, event: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.0.path().join("log")).unwrap_or_default();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|line| line["event"] == event).collect()
    }

    /// A node with this library behind its export `data`.
    fn node(&self) -> Node {
        let setup = Setup::new();
        let mode = format!("rw,tape={}", self.program());
        setup.data_export(&mode).start()
    }
}

/// Sends a request to a node over HTTP.
fn ask(node: &Node, key: &str, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
    let mut curl = Command::new("curl");
    curl.args(["-sk", "-X", method, "-w", "\n%{http_code}"]);
    if !key.is_empty() {
        curl.args(["--oauth2-bearer", key]);
    }
    if let Some(body) = body {
        curl.args(["-H", "Content-Type: application/json", "-d", &body.to_string()]);
    }
    let output = curl.arg(format!("https://{}{path}", node.address())).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (body, status) = text.rsplit_once('\n').unwrap();
    (status.parse().unwrap(), serde_json::from_str(body).unwrap_or_default())
}

#[test]
fn a_node_stages_files_from_tape_and_archives_new_ones() {
    let library = Library::new(2, 0.01, 50e6);
    library.put("run/c1.f1", b"one");
    library.put("run/c1.f2", b"two");
    let node = library.node();
    let key = node.grant(&["--export", "data", "--write"]);
    let (status, found) = ask(&node, "", "GET", "/.well-known/wlcg-tape-rest-api", None);
    assert_eq!((status, &found["endpoints"][0]["version"]), (200, &json!("v1")));
    let uri = found["endpoints"][0]["uri"].as_str().unwrap().to_owned();
    let api = &uri[uri.find("/api").unwrap()..];
    let localities = |paths: &[&str]| -> Vec<String> {
        let (status, answer) = ask(&node, &key, "POST", &format!("{api}/archiveinfo"), Some(&json!({"paths": paths})));
        assert_eq!(status, 200);
        let word = |one: &Value| one["locality"].as_str().or(one["error"].as_str()).unwrap().to_owned();
        answer.as_array().unwrap().iter().map(word).collect()
    };
    assert_eq!(
        localities(&["/data/run/c1.f1", "//data//none", "/other/x"]),
        ["TAPE", "No such file", "Permission denied"]
    );

    let files: Vec<Value> = ["/data/run/c1.f1", "/data/run/c1.f2", "/data/none"]
        .map(|path| json!({"path": path, "diskLifetime": "P1D", "targetedMetadata": {"x": {"activity": "test"}}}))
        .into();
    let (status, made) = ask(&node, &key, "POST", &format!("{api}/stage"), Some(&json!({"files": files})));
    let id = made["requestId"].as_str().unwrap().to_owned();
    assert_eq!(status, 201);
    let done = until_some("the request is completed", LONG, || {
        let (_, stage) = ask(&node, &key, "GET", &format!("{api}/stage/{id}"), None);
        stage["completedAt"].is_u64().then_some(stage)
    });
    assert_eq!((&done["id"], done["createdAt"].is_u64()), (&json!(id), true));
    let file = |at: usize| &done["files"][at];
    assert_eq!((&file(0)["onDisk"], &file(0)["state"], &file(1)["onDisk"]), (&json!(true), &Value::Null, &json!(true)));
    assert_eq!((&file(2)["state"], &file(2)["onDisk"]), (&json!("FAILED"), &Value::Null));
    assert!(file(2)["error"].as_str().unwrap().contains("No such file"), "{done}");
    assert_eq!(fs::read(node.data("run/c1.f2")).unwrap(), b"two");
    assert_eq!(library.log("mount").len(), 2, "one cartridge once, and one that is not there");

    // Another request has one of them, too: it stays until both have released it.
    let one = json!({"files": [{"path": "/data/run/c1.f1"}]});
    let (_, other) = ask(&node, &key, "POST", &format!("{api}/stage"), Some(&one));
    let other = other["requestId"].as_str().unwrap().to_owned();
    until("the other has it", LONG, || {
        ask(&node, &key, "GET", &format!("{api}/stage/{other}"), None).1["files"][0]["onDisk"] == true
    });
    let paths = json!({"paths": ["/data/run/c1.f1", "/data/run/c1.f2"]});
    let with_unknown_path = json!({"paths": ["/data/run/c1.f1", "/data/x"]});
    for what in [format!("{api}/release/{id}"), format!("{api}/stage/{id}/cancel")] {
        let (status, problem) = ask(&node, &key, "POST", &what, Some(&with_unknown_path));
        assert!(status == 400 && problem["reason"].as_str().unwrap().contains("nothing was done"), "{problem}");
    }
    assert_eq!(ask(&node, &key, "POST", &format!("{api}/release/{id}"), Some(&paths)).0, 200);
    until("the released file is removed from disk", LONG, || !node.data("run/c1.f2").exists());
    assert!(node.data("run/c1.f1").exists(), "the other request holds it");
    assert_eq!(ask(&node, &key, "DELETE", &format!("{api}/stage/{other}"), None).0, 200);
    until("the other file is removed from disk", LONG, || localities(&["/data/run/c1.f1"]) == ["TAPE"]);
    assert_eq!(ask(&node, &key, "GET", &format!("{api}/stage/{other}"), None).0, 404);

    // New files are archived.
    let mut curl = Command::new("curl");
    curl.args(["-sk", "-T", "-", "--oauth2-bearer", &key, &format!("https://{}/data/new/c9.f1", node.address())]);
    let mut child = curl.stdin(std::process::Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"fresh").unwrap();
    assert!(child.wait().unwrap().success());
    until("it is on tape", LONG, || localities(&["/data/new/c9.f1"]) == ["DISK_AND_TAPE"]);
    assert_eq!(fs::read(library.tape("new/c9.f1")).unwrap(), b"fresh");

    // Other users and anonymous clients cannot see it.
    let reader = node.grant(&["--export", "data"]);
    assert_eq!(ask(&node, &reader, "GET", &format!("{api}/stage/{id}"), None).0, 404);
    assert_eq!(ask(&node, "", "POST", &format!("{api}/stage"), Some(&one)).0, 401);
    let nowhere = json!({"files": [{"path": "/elsewhere/x"}]});
    assert_eq!(ask(&node, &key, "POST", &format!("{api}/stage"), Some(&nowhere)).0, 403);
    assert_eq!(ask(&node, &key, "POST", &format!("{api}/stage"), Some(&json!({"files": []}))).0, 400);
}

/// Reference table T14, with a terabyte as a megabyte and an hour as 0.6 s: a drive reads 1 TB in an hour, 32 drives feed 71 Gbit/s.
#[test]
fn a_library_of_thirty_two_drives_is_kept_busy() {
    const TERABYTE: usize = 1_000_000;
    const HOUR_S: f64 = 0.6;
    let library = Library::new(32, 0.0, TERABYTE as f64 / HOUR_S);
    let node = library.node();
    let key = node.grant(&["--export", "data"]);
    let stage = |files: &[String]| {
        let files: Vec<Value> = files.iter().map(|file| json!({"path": format!("/data/{file}")})).collect();
        let (status, made) = ask(&node, &key, "POST", "/api/v1/tape/stage", Some(&json!({"files": files})));
        assert_eq!(status, 201, "{made}");
        let path = format!("/api/v1/tape/stage/{}", made["requestId"].as_str().unwrap());
        until("it is on disk", Duration::from_secs(120), || {
            ask(&node, &key, "GET", &path, None).1["files"]
                .as_array()
                .unwrap()
                .iter()
                .all(|file| file["onDisk"] == true)
        });
    };
    // One cartridge of six terabytes, in six files.
    let whole: Vec<String> = (0..6).map(|file| format!("one.{file}")).collect();
    whole.iter().for_each(|file| library.put(file, &pattern(TERABYTE)));
    stage(&whole);
    let reads = library.log("read");
    let number = |read: &Value, word: &str| read[word].as_f64().unwrap();
    assert_eq!(library.log("mount").len(), 1, "a cartridge is mounted once");
    let hours: f64 = reads.iter().map(|read| number(read, "model_s") / HOUR_S).sum();
    assert!((hours - 6.0).abs() < 0.01, "{hours} h for 6 TB of one drive");

    // 64 terabytes on 32 cartridges: two hours of all drives, where one would need 64.
    let many: Vec<String> = (0..64).map(|file| format!("c{}.{file}", file % 32)).collect();
    many.iter().for_each(|file| library.put(file, &pattern(TERABYTE)));
    stage(&many);
    let reads: Vec<Value> = library.log("read").split_off(reads.len());
    let drives: std::collections::BTreeSet<u64> = reads.iter().map(|read| read["drive"].as_u64().unwrap()).collect();
    assert_eq!((reads.len(), drives.len()), (64, 32), "all drives read");
    let began = reads.iter().map(|read| number(read, "began")).fold(f64::INFINITY, f64::min);
    let ended = reads.iter().map(|read| number(read, "ended")).fold(0.0, f64::max);
    let hours = (ended - began) / HOUR_S;
    // Copies of megabytes take the machine's own time as well: a bound far from the truth, which is 2.
    assert!((1.99..20.0).contains(&hours), "{hours} h");
    let gbit_s: f64 = 64.0 * 8e3 / (2.0 * 3600.0);
    assert!((gbit_s - 71.0).abs() < 0.2, "that is {gbit_s} Gbit/s");
}

/// Adds a node that has tape, and one that has none, to a hub.
fn add_endpoints(admin: &Member<'_>, tape: &Node, disk: &Node) {
    for (name, node, is_tape) in [("vault", tape, "true"), ("disk", disk, "false")] {
        let key = admin.write(&format!("{name}.key"), &node.grant(&["--export", "data", "--write"]));
        let (url, storage) = (node.at(""), node.at("data"));
        admin.run(&["hub", "site", "add", name]).expect(0);
        let words = ["hub", "endpoint", "add", name, "--site", name, "--url", &url, "--endpoint-key-file", &key];
        admin.run(&[words.as_slice(), &["--tape", is_tape, "--storage", &storage]].concat()).expect(0);
    }
}

fn is_on_disk(path: &Path) -> bool {
    path.exists()
}

#[test]
fn a_hub_stages_files_in_one_request_and_releases_them() {
    const FILES: usize = 30;
    let library = Library::new(1, 0.2, 2e6);
    let (tape, disk) = (library.node(), Setup::new().data_export("rw").start());
    let hub = Hub::start(&[]);
    let admin = hub.member("admin", "root", "");
    add_endpoints(&admin, &tape, &disk);
    let mut list = String::new();
    for file in 0..FILES {
        library.put(&format!("run/c{}.{file}", file % 3), &pattern(100_000));
        let name = format!("data/run/c{}.{file}", file % 3);
        list += &format!("{} {} 100000\n", tape.at(&name), disk.at(&name));
    }
    list += &format!("{} {} 7\n", tape.at("data/run/lost.1"), disk.at("data/run/lost.1"));
    let list = admin.write("list", &list);
    let id = admin.submit(&["--files-from", &list]);
    let why = until_some("it states what it waits for", LONG, || {
        let why = admin.json(&["queue", "why", &id]);
        why.first().map(|why| why["constraint"].clone()).filter(|why| why["kind"] == "staging")
    });
    assert!(why["text"].as_str().unwrap().contains("are being staged from tape at vault"), "{why}");
    until("all files but the lost one have arrived", Duration::from_secs(120), || admin.job(&id)["done"] == FILES);
    for file in 0..FILES {
        let path = format!("run/c{}.{file}", file % 3);
        assert_eq!(fs::read(disk.data(&path)).unwrap(), pattern(100_000));
        until("it need not stay on the vault's disk", LONG, || !is_on_disk(&tape.data(&path)));
    }
    let runs = library.log("run");
    assert_eq!(runs[0]["files"], FILES + 1, "one request for all: {runs:?}");
    let mounts = library.log("mount").iter().filter(|mount| mount["cartridge"] != "lost").count();
    assert_eq!(mounts, 3, "each cartridge is mounted once");
    let begun = Instant::now();
    admin.run(&["queue", "cancel", &id]).expect(0);
    until("the job with the lost file has ended", LONG, || admin.job(&id)["ended"].is_string());
    assert!(begun.elapsed() < LONG);
}

#[test]
fn a_killed_node_resumes_staging() {
    let library = Library::new(1, 0.0, 1e6);
    let (mut tape, disk) = (library.node(), Setup::new().data_export("rw").start());
    let hub = Hub::start(&[]);
    let admin = hub.member("admin", "root", "");
    add_endpoints(&admin, &tape, &disk);
    for file in 0..4 {
        library.put(&format!("c1.{file}"), &pattern(1_500_000));
    }
    let list: String = (0..4)
        .map(|file| {
            format!("{} {} 1500000\n", tape.at(&format!("data/c1.{file}")), disk.at(&format!("data/c1.{file}")))
        })
        .collect();
    let list = admin.write("list", &list);
    let id = admin.submit(&["--files-from", &list]);
    until("the first one has come", LONG, || tape.data("c1.0").exists());
    tape.kill();
    tape.restart();
    until("all files have arrived", Duration::from_secs(180), || admin.job(&id)["state"] == "done");
    assert_eq!(fs::read(disk.data("c1.3")).unwrap(), pattern(1_500_000));
}

#[test]
fn a_rule_reads_from_disk_where_it_can_and_a_replica_on_tape_is_not_missing() {
    let library = Library::new(1, 0.0, 50e6);
    let (tape, disk) = (library.node(), Setup::new().data_export("rw").start());
    let third = Setup::new().data_export("rw").start();
    let hub = Hub::start(&[]);
    let admin = hub.member("admin", "root", "");
    add_endpoints(&admin, &tape, &disk);
    let key = admin.write("third.key", &third.grant(&["--export", "data", "--write"]));
    let (url, storage) = (third.at(""), third.at("data"));
    let words = ["hub", "endpoint", "add", "third", "--url", &url, "--endpoint-key-file", &key, "--storage", &storage];
    admin.run(&words).expect(0);
    admin.run(&["data", "scope", "s"]).expect(0);
    library.put("s/c1.f", b"bytes");
    fs::create_dir_all(disk.data("s")).unwrap();
    fs::write(disk.data("s/c1.f"), b"bytes").unwrap();
    let entered =
        json!({"data": [{"name": "s:c1.f", "bytes": 5, "replicas": [{"endpoint": "vault"}, {"endpoint": "disk"}]}]});
    let granted = hub.grant(&["--role", "admin", "--name", "root", "--community", ""]);
    let mut curl = Command::new("curl");
    curl.args(["-sk", "--oauth2-bearer", &granted, "-H", "Content-Type: application/json", "-d", &entered.to_string()]);
    assert!(curl.arg(format!("{}/api/v1/data", hub.url)).output().unwrap().status.success());
    let add_rule_until_fulfilled = |at: &str| {
        let rule = admin.json(&["data", "rule", "add", "s:c1.f", "--at", at]).remove(0);
        let id = rule["id"].as_str().unwrap().to_owned();
        until("the rule is fulfilled", LONG, || admin.json(&["data", "rule", "why", &id])[0]["rule"]["state"] == "ok");
    };
    add_rule_until_fulfilled("third");
    assert!(library.log("run").is_empty(), "what is on disk need not come from tape");

    // A replica that is only on tape is not missing.
    let text = admin.run(&["data", "audit", "run", "vault"]).expect(3).text();
    assert!(text.contains("1 missing"), "{text}");
    std::thread::sleep(Duration::from_secs(8));
    let copies = admin.json(&["data", "where", "s:c1.f", "--files"]).remove(0);
    let vault = copies["replicas"].as_array().unwrap().iter().find(|copy| copy["endpoint"] == "vault").unwrap().clone();
    assert_eq!(vault["state"], "available", "{vault}");
}
