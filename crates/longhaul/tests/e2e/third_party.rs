//! Copies between two nodes: the payload goes straight from one to the other, and the job outlives the client and the
//! restarts of either.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::client::{Client, Running, unfinished, words};
use crate::control::{ControlPoint, job};
use crate::node::{Node, Setup, signal};
use crate::relay::Relay;
use crate::sync::fill;
use crate::tree::{assert_copied, build, pattern, set_mode};
use crate::unfinished_state::written;
use crate::wait::{LONG, until, until_some};
use crate::wrappers::{mounted, with_mounts};

/// Two nodes, and a client that may read at one and write at the other.
struct ThirdPartyFixture {
    source: Node,
    target: Node,
    client: Client,
}

fn fixture() -> ThirdPartyFixture {
    let (source, target) = (Node::closed(), Node::closed());
    let keys = [source.grant(&["--export", "data"]), target.grant(&["--export", "data", "--write"])];
    ThirdPartyFixture { source, target, client: Client::with_key(&keys.join(",")) }
}

/// A job's id, as its command prints it.
fn id_of(running: &Running) -> String {
    until_some("the command names the job", LONG, || {
        let err = running.err();
        let line = err.lines().find(|line| line.contains(" runs on "))?;
        Some(line.split_whitespace().skip_while(|word| *word != "job").nth(1)?.to_owned())
    })
}

const LARGE: usize = 24 << 20;

impl ThirdPartyFixture {
    /// Writes a large file at the source, and starts a copy of it that takes some three seconds.
    fn begin(&self) -> (Running, String) {
        self.begin_at("60Mbit/s")
    }

    fn begin_at(&self, limit: &str) -> (Running, String) {
        fs::create_dir(self.source.data("s")).unwrap();
        fs::write(self.source.data("s/large"), pattern(LARGE)).unwrap();
        fs::write(self.source.data("s/small"), b"small").unwrap();
        let words = words!["cp", "-r", self.source.at("data/s"), self.target.at("data/t"), "--limit", limit];
        let running = self.client.begin([words, words!["--json"]].concat());
        let id = id_of(&running);
        (running, id)
    }

    /// The report of the source's node about a job, for the holder of the key.
    fn show(&self, id: &str) -> Value {
        job(&self.source, &self.client, ControlPoint::Key, words!["show", id, "--json"]).expect(0).json()
    }

    /// Waits until a third of the large file is there, and freezes the target before all of it is. The target stays frozen until the
    /// test thaws it or kills it.
    fn freeze_at_a_third(&self) {
        until("a third is there", LONG, || {
            let paths = unfinished(&self.target.data(""));
            paths.iter().any(|path| written(path) > LARGE as u64 / 3)
        });
        self.target.freeze();
        assert!(!self.target.data("t/large").exists());
    }

    fn receipt(&self, id: &str) -> Value {
        until_some("the job has ended", LONG, || {
            let shown = self.show(id);
            shown["receipt"].is_object().then(|| shown["receipt"].clone())
        })
    }

    fn assert_arrived(&self) {
        assert_copied(&self.source.data("s"), &self.target.data("t"));
        assert!(unfinished(&self.target.data("")).is_empty());
    }
}

#[test]
fn a_tree_goes_from_node_to_node() {
    let fixture = fixture();
    build(&fixture.source.data("s"));
    let (from, to) = (fixture.source.at("data/s"), fixture.target.at("data/t"));
    let receipt = fixture.client.cp(0, words!["-r", from, to]);
    crate::tree::assert_copied_without_set_id(&fixture.source.data("s"), &fixture.target.data("t"));
    assert_eq!((&receipt["event"], &receipt["state"]), (&"receipt".into(), &"done".into()));
    assert_eq!((&receipt["source"][0], &receipt["target"]), (&from.as_str().into(), &to.as_str().into()));
    let files = receipt["files"].as_u64().unwrap();
    // Again: nothing to do. A job of its own, with options of its own.
    let again = fixture.client.cp(0, words!["-r", from, to]);
    assert_eq!((&again["files"], &again["skipped"]), (&0.into(), &files.into()));
    fs::write(fixture.target.data("t/extra"), b"x").unwrap();
    let bounded = fixture.client.cp(3, words!["-r", from, to, "--delete", "--max-delete", "0", "--exclude", "links"]);
    assert_eq!((&bounded["deleted"], fixture.target.data("t/extra").exists()), (&0.into(), true), "{bounded}");
    let deleted = fixture.client.cp(0, words!["-r", from, to, "--delete", "--exclude", "links"]);
    assert_eq!(deleted["deleted"], 1, "{deleted}");
    assert!(!fixture.target.data("t/extra").exists() && fixture.target.data("t/links").exists());
    // The source's node keeps only the result of the job: no key, and no running job. It is reported first, then written.
    until("the node keeps only the results of the orders", LONG, || {
        fs::read_dir(fixture.source.state().join("transfers")).unwrap().all(|entry| {
            let kept = fs::read_to_string(entry.unwrap().path()).unwrap_or_default();
            kept.contains("\"ended\"") && !kept.contains("lhk1_")
        })
    });
}

#[test]
fn the_payload_bypasses_a_distant_client() {
    let fixture = fixture();
    fs::create_dir(fixture.source.data("s")).unwrap();
    fs::write(fixture.source.data("s/large"), pattern(LARGE)).unwrap();
    fill(&fixture.source.data("s"), &["a", "b", "c/d"]);
    symlink("a", fixture.source.data("s/link")).unwrap();
    let (near, far) = (Relay::new(fixture.source.port, 0), Relay::new(fixture.target.port, fixture.source.pid()));
    let receipt = fixture.client.cp(0, words!["-r", near.at("data/s"), far.at("data/t")]);
    assert_eq!(receipt["bytes"], LARGE + 5, "{receipt}");
    fixture.assert_arrived();
    let zeros = fixture.client.cp(0, words![near.at("zero:100MB"), far.at("null:"), "--checksum", "none"]);
    assert_eq!(zeros["bytes"], 100_000_000);
    let passed = (near.counted(), far.counted());
    assert!(passed.0 > 1000 && passed.1 > 1000, "the relays count: {passed:?}");
    assert!(passed.0 + passed.1 < 500_000, "{passed:?} bytes passed through the client in two jobs");
}

#[test]
fn a_job_outlives_its_client() {
    let fixture = fixture();
    let (mut running, id) = fixture.begin();
    fixture.freeze_at_a_third();
    running.child.kill().unwrap();
    running.child.wait().unwrap();
    let shown = fixture.show(&id);
    assert_eq!((&shown["state"], &shown["role"]), (&"running".into(), &"carry".into()), "{shown}");
    // Other keys do not show it.
    let other = Client::with_key(&fixture.source.grant(&["--export", "data"]));
    job(&fixture.source, &other, ControlPoint::Key, words!["show", id]).refused(1, &[&id]);
    fixture.target.thaw();
    let receipt = fixture.receipt(&id);
    assert_eq!((&receipt["state"], &receipt["exit"]), (&"done".into(), &0.into()), "{receipt}");
    assert_eq!((&receipt["bytes"], &receipt["transfer"]), (&(LARGE + 5).into(), &id.as_str().into()));
    fixture.assert_arrived();
    let text = job(&fixture.source, &fixture.client, ControlPoint::Key, words!["show", id]).expect(0).text();
    assert!(text.contains("done") && text.contains("2 files"), "{text}");
}

#[test]
fn a_client_that_is_interrupted_leaves_the_job_running() {
    let fixture = fixture();
    let (running, id) = fixture.begin();
    fixture.freeze_at_a_third();
    signal(&running.child, Signal::INT);
    fixture.target.thaw();
    let outcome = running.finish().expect(130);
    assert!(outcome.err.contains(&id) && outcome.err.contains("job show"), "{}", outcome.err);
    assert_eq!(fixture.receipt(&id)["state"], "done");
    fixture.assert_arrived();
}

/// Asserts that the job resumes inside its file: bytes that had arrived are not sent again.
fn assert_resumed(fixture: &ThirdPartyFixture, running: Running) {
    let outcome = running.finish().expect(0);
    let receipt = outcome.json();
    assert!(receipt["resumed_bytes"].as_u64() >= Some(LARGE as u64 / 8), "{receipt}\n{}", outcome.err);
    assert_eq!(receipt["state"], "done", "{receipt}");
    fixture.assert_arrived();
}

#[test]
fn a_job_continues_when_the_source_comes_back() {
    let mut fixture = fixture();
    let (running, id) = fixture.begin();
    fixture.freeze_at_a_third();
    fixture.source.kill();
    fixture.target.thaw();
    fixture.source.restart();
    assert_resumed(&fixture, running);
    assert_eq!(fixture.receipt(&id)["state"], "done");
}

#[test]
fn a_job_continues_after_an_orderly_stop_of_the_source() {
    let mut fixture = fixture();
    let (running, _) = fixture.begin();
    fixture.freeze_at_a_third();
    fixture.target.thaw();
    assert_eq!(fixture.source.stop(), Some(0));
    fixture.source.restart();
    assert_resumed(&fixture, running);
}

#[test]
fn a_job_continues_when_the_target_comes_back() {
    let mut fixture = fixture();
    let (running, _) = fixture.begin();
    fixture.freeze_at_a_third();
    fixture.target.kill();
    std::thread::sleep(Duration::from_millis(300));
    fixture.target.restart();
    assert_resumed(&fixture, running);
}

#[test]
fn a_job_continues_without_its_client_when_both_nodes_come_back() {
    let mut fixture = fixture();
    let (running, id) = fixture.begin();
    fixture.freeze_at_a_third();
    drop(running);
    fixture.source.kill();
    fixture.target.kill();
    // The source returns before the target does.
    fixture.source.restart();
    std::thread::sleep(Duration::from_secs(1));
    fixture.target.restart();
    let receipt = fixture.receipt(&id);
    assert_eq!(receipt["state"], "done", "{receipt}");
    assert!(receipt["resumed_bytes"].as_u64() >= Some(LARGE as u64 / 8), "{receipt}");
    fixture.assert_arrived();
}

#[test]
fn the_key_controls_a_delegated_job() {
    let fixture = fixture();
    // So slow that two thirds of the file take longer than the pause command, although buffers take much while the target is frozen.
    let (running, id) = fixture.begin_at("16Mbit/s");
    fixture.freeze_at_a_third();
    let at_key = |words: Vec<OsString>| job(&fixture.source, &fixture.client, ControlPoint::Key, words).expect(0);
    at_key(words!["pause", id]);
    fixture.target.thaw();
    until("it is paused", LONG, || fixture.show(&id)["state"] == "paused");
    let target_sees =
        || job(&fixture.target, &fixture.client, ControlPoint::Operator, words!["show", id, "--json"]).expect(0).json();
    until("its target reports that", LONG, || target_sees()["state"] == "paused");
    let seen = || [fixture.show(&id)["bytes"].clone(), target_sees()["bytes"].clone()];
    until("what was sent has arrived", LONG, || {
        let looks = [(); 3].map(|()| {
            std::thread::sleep(Duration::from_millis(300));
            seen()
        });
        looks[0] == looks[1] && looks[1] == looks[2]
    });
    let bytes_at_pause = seen();
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(seen(), bytes_at_pause);
    let [before, _] = bytes_at_pause;
    at_key(words!["set", id, "--limit", "8Mbit/s", "--streams", "3"]);
    at_key(words!["resume", id]);
    until("it continues", LONG, || fixture.show(&id)["bytes"] != before);
    let shown = fixture.show(&id);
    assert_eq!((&shown["limit_bit_s"], &shown["streams"]), (&8_000_000.into(), &3.into()), "{shown}");
    at_key(words!["cancel", id]);
    let outcome = running.finish().expect(130);
    assert_eq!(outcome.json()["state"], "interrupted", "{}", outcome.err);
    // The same command resumes.
    let receipt = fixture.client.cp(0, words!["-r", fixture.source.at("data/s"), fixture.target.at("data/t")]);
    assert!(receipt["resumed_bytes"].as_u64() >= Some(LARGE as u64 / 8), "{receipt}");
    fixture.assert_arrived();
}

#[test]
fn a_failure_at_either_end_is_reported() {
    let fixture = fixture();
    fill(&fixture.source.data("s"), &["f", "g"]);
    fill(&fixture.target.data("t"), &["f/in the way"]);
    let (source, target) = (&fixture.source, &fixture.target);
    let read = target.grant(&["--export", "data"]);
    let create = target.grant(&["--export", "data", "--create"]);
    let none = source.grant(&["--export", "data", "--path", "elsewhere"]);
    let client_with = |at_source: Option<&str>, at_target: &str| {
        let own = source.grant(&["--export", "data"]);
        Client::with_key(&format!("{},{at_target}", at_source.unwrap_or(&own)))
    };
    let words = |to: &str| words!["cp", "-r", source.at("data/s"), target.at(to)];
    // No right to write, none to read, none to replace.
    client_with(None, &read).run(words("data/new")).expect(4);
    client_with(Some(&none), &create).run(words("data/new")).expect(4);
    assert!(!target.data("new").exists());
    client_with(None, &create).run(words("data/made")).expect(0);
    fs::write(source.data("s/f"), b"another").unwrap();
    client_with(None, &create).run(words("data/made")).expect(3);
    assert_eq!(fs::read(target.data("made/f")).unwrap(), b"f");
    // A directory in place of a file; no source; no node at the target.
    let receipt = fixture.client.cp(3, words!["-r", source.at("data/s"), target.at("data/t")]);
    assert_eq!((&receipt["files"], &receipt["failed"]), (&1.into(), &1.into()), "{receipt}");
    let missing = words!["cp", "-r", source.at("data/missing"), target.at("data/x")];
    let outcome = fixture.client.run(missing).expect(1);
    assert!(outcome.err.contains("missing"), "{}", outcome.err);
    fixture.client.run(words!["cp", source.at("data/s"), target.at("data/x")]).expect(2);
    let (from, list) = (source.at("data/s"), fixture.client.write("list", b"f\n"));
    fixture.client.run(words!["cp", from, target.at("data/x"), "--files-from", list]).refused(2, &["--files-from"]);
    fixture.client.run(words!["cp", "-r", from, "lh://127.0.0.1:1/data/x"]).expect(5);
}

#[test]
fn a_full_target_is_reported_as_storage() {
    const TEST: &str = "third_party::a_full_target_is_reported_as_storage";
    with_mounts(TEST, || {
        let (source, client) = (Node::open(), Client::new());
        let full = client.path("full");
        let Some(_mount) = mounted(&full, "size=4m", TEST) else { return };
        let target = Setup::new().export("data", &full, "rw").arg("--anonymous").arg("rw").start();
        fs::write(source.data("f"), pattern(9 << 20)).unwrap();
        let words = words!["cp", source.at("data/f"), target.at("data/f"), "--wait-space", "0s"];
        let outcome = client.run(words).expect(6);
        assert!(outcome.err.contains("too small"), "{}", outcome.err);
        // Large enough, and being written.
        fs::write(full.join("others"), pattern(3 << 20)).unwrap();
        fs::write(source.data("f"), pattern(2 << 20)).unwrap();
        let words = words!["cp", source.at("data/f"), target.at("data/f"), "--wait-space", "0s"];
        let outcome = client.run(words).expect(6);
        assert!(outcome.err.contains("space"), "{}", outcome.err);
        fs::write(source.data("f"), b"it fits").unwrap();
        client.cp(0, words![source.at("data/f"), target.at("data/f")]);
    });
}

#[test]
fn a_dry_run_between_nodes_changes_nothing() {
    let fixture = fixture();
    fill(&fixture.source.data("s"), &["f", "d/new"]);
    fill(&fixture.target.data("t"), &["f", "extra"]);
    let before = crate::tree::facts(&fixture.target.data(""));
    let words = words!["-r", fixture.source.at("data/s"), fixture.target.at("data/t"), "--delete", "--sync", "size"];
    let receipt = fixture.client.cp(0, [words.clone(), words!["--dry-run"]].concat());
    let numbers = ["files", "skipped", "deleted"].map(|what| receipt[what].as_u64().unwrap());
    assert_eq!((numbers, &receipt["dry_run"]), ([1, 1, 1], &true.into()), "{receipt}");
    assert!(crate::tree::facts(&fixture.target.data("")) == before);
    assert_eq!(fixture.client.cp(0, words)["deleted"], 1);
    assert!(fixture.target.data("t/d/new").exists() && !fixture.target.data("t/extra").exists());
}

#[test]
fn both_places_may_be_on_one_node() {
    let node = Node::closed();
    let client = Client::with_key(&node.grant(&["--export", "data", "--write"]));
    build(&node.data("s"));
    let receipt = client.cp(0, words!["-r", node.at("data/s"), node.at("data/t")]);
    crate::tree::assert_copied_without_set_id(&node.data("s"), &node.data("t"));
    assert!(receipt["bytes"].as_u64() > Some(1 << 20), "{receipt}");
    assert_eq!(receipt["failed"], 0);
    set_mode(&node.data("t/closed"), 0o700);
}

#[test]
fn a_public_node_copies_nothing_to_its_own_host() {
    let source = Setup::new().data_export("ro").on_all_addresses().start();
    fs::write(source.data("f"), b"f").unwrap();
    let client = Client::with_key(&source.grant(&["--export", "data"]));
    let inside = Setup::new().data_export("rw").start();
    let keys = [source.grant(&["--export", "data"]), inside.grant(&["--export", "data", "--write"])].join(",");
    let both = Client::with_key(&keys);
    let outcome = both.run(words!["cp", source.at("data/f"), inside.at("data/f")]).expect(4);
    assert!(outcome.err.contains("this machine") && outcome.err.contains("third_party"), "{}", outcome.err);
    let by_name = format!("lh://localhost:{}/data/f", inside.port);
    both.run(words!["cp", source.at("data/f"), by_name]).expect(4);
    assert!(inside.is_empty());
    // A copy through the client is not limited by the node.
    client.run(words!["cp", source.at("data/f"), client.path("f")]).expect(0);
    assert_eq!(fs::read(client.path("f")).unwrap(), b"f");
    // Unless its operator allows that.
    let permitting = Setup::new();
    fs::create_dir(permitting.state()).unwrap();
    fs::write(permitting.state().join("access.toml"), "[third_party]\nlocal = true\n").unwrap();
    let permitting = permitting.data_export("ro").on_all_addresses().start();
    fs::write(permitting.data("f"), b"f").unwrap();
    let keys = [permitting.grant(&["--export", "data"]), inside.grant(&["--export", "data", "--write"])].join(",");
    Client::with_key(&keys).run(words!["cp", permitting.at("data/f"), inside.at("data/f")]).expect(0);
}

/// The files below a directory that contain these bytes.
pub fn files_with(dir: &std::path::Path, needle: &[u8]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            found.extend(files_with(&path, needle));
        } else if fs::read(&path).is_ok_and(|bytes| bytes.windows(needle.len()).any(|part| part == needle)) {
            found.push(path);
        }
    }
    found
}

/// A client without a credential could have a node connect to hosts that only the node reaches, and find out whether something answers.
#[test]
fn anonymous_clients_order_copies_only_where_the_policy_permits_it() {
    let anonymous = || Setup::new().data_export("rw").arg("--anonymous").arg("rw").arg("--plain");
    let (shut, open, target) = (anonymous().start(), anonymous().anonymous_may_copy().start(), Node::open());
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let there = format!("http://{}/f", listener.local_addr().unwrap());
    for node in [&shut, &open] {
        fs::write(node.data("f"), b"mine").unwrap();
    }
    for (name, to) in [("Source", there.as_str()), ("Destination", &there)] {
        let fields = [(name, to), ("TransferHeaderAuthorization", "Bearer x")];
        let answer = crate::web::raw::ask(&shut, "COPY", "/data/f", &fields, &[]).expect(401);
        assert!(answer.text().contains("guests = true"), "{}", answer.text());
    }
    let client = Client::new();
    let copy = |from: &Node| client.run(words!["cp", from.at("data/f"), target.at("data/f")]);
    copy(&shut).refused(4, &["a client without a credential", "guests = true"]);
    assert!(!target.data("f").exists());
    assert!(listener.accept().is_err(), "no connection was made");
    copy(&open).expect(0);
    assert_eq!(fs::read(target.data("f")).unwrap(), b"mine");
    // Clients with keys may, as before.
    let keys = [shut.grant(&["--export", "data"]), target.grant(&["--export", "data", "--write"])];
    let known = Client::with_key(&keys.join(","));
    known.run(words!["cp", shut.at("data/f"), target.at("data/g")]).expect(0);
}
