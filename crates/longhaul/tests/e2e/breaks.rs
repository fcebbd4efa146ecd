//! Jobs that are stopped, killed or cut off: no incomplete file ever has its final name, and the same command run again
//! completes the copy.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;

use crate::client::{Client, Running, unfinished, words};
use crate::mirrors::ThrottledLine;
use crate::node::{Node, Setup, signal};
use crate::tree::{assert_copied, pattern};
use crate::unfinished_state::{assert_kept, assert_nothing_kept, covered, has_no_writer};
use crate::wait::{LONG, until};

/// Files of a job that takes some nine seconds at [`SLOW`], each larger than a second's worth.
const FILES: usize = 6;
const SLOW: &str = "2MB/s";

/// Builds a tree of files whose content follows from their names.
fn build(root: &Path) {
    fs::create_dir_all(root).unwrap();
    for n in 0..FILES {
        fs::write(root.join(format!("{n}")), pattern((3 << 20) + n)).unwrap();
    }
}

/// Asserts that every file with its final name is complete.
#[track_caller]
fn assert_whole(target: &Path) {
    for entry in fs::read_dir(target).into_iter().flatten().flatten() {
        let name = entry.file_name().into_string().unwrap();
        if !name.starts_with(".longhaul-") {
            let n: usize = name.parse().unwrap();
            assert!(fs::read(entry.path()).unwrap() == pattern((3 << 20) + n), "{name} is incomplete");
        }
    }
}

/// Waits until a job writes below a directory, or has finished a file there.
fn under_way(target: &Path) {
    until("the job is under way", LONG, || {
        unfinished(target).iter().any(|path| fs::metadata(path).is_ok_and(|meta| meta.len() > 0))
    });
}

fn words_of(from: &str, to: &str) -> Vec<std::ffi::OsString> {
    words_at(SLOW, from, to)
}

fn words_at(limit: &str, from: &str, to: &str) -> Vec<std::ffi::OsString> {
    words!["cp", "-r", from, to, "--limit", limit, "--streams", "2"]
}

struct CopyFixture {
    node: Node,
    client: Client,
    source: PathBuf,
    target: PathBuf,
    from: String,
    to: String,
}

fn copy_fixture(push: bool) -> CopyFixture {
    let (node, client) = (Node::open(), Client::new());
    let here = client.path(if push { "s" } else { "t" });
    let there = node.data(if push { "t" } else { "s" });
    let at = node.at(if push { "data/t" } else { "data/s" });
    let (source, target) = if push { (here.clone(), there) } else { (there, here.clone()) };
    build(&source);
    let here = here.display().to_string();
    let (from, to) = if push { (here, at) } else { (at, here) };
    CopyFixture { node, client, source, target, from, to }
}

impl CopyFixture {
    /// The state directory of the end that writes.
    fn writer_state(&self) -> PathBuf {
        if self.target.starts_with(self.node.data("")) { self.node.state() } else { self.client.state() }
    }

    fn assert_kept(&self) {
        assert_kept(&self.target, &self.writer_state());
    }

    fn begin(&self) -> Running {
        let running = self.client.begin(words_of(&self.from, &self.to));
        under_way(&self.target);
        running
    }

    /// Asserts that the command, run again at full speed, completes the copy and leaves nothing else.
    fn assert_completes(&self) {
        let there = covered(&self.writer_state());
        let receipt = self.client.cp(0, words!["-r", self.from, self.to]);
        assert!(receipt["resumed_bytes"].as_u64().unwrap() >= there, "{there} were there: {receipt}");
        assert_copied(&self.source, &self.target);
        assert_nothing_kept(&self.target, &self.writer_state());
    }
}

#[test]
fn an_interrupted_job_leaves_no_incomplete_files() {
    std::thread::scope(|scope| {
        for push in [true, false] {
            scope.spawn(move || {
                let fixture = copy_fixture(push);
                let running = fixture.begin();
                signal(&running.child, Signal::INT);
                let outcome = running.finish().expect(130);
                assert!(outcome.err.contains("run the same command again"), "{}", outcome.err);
                fixture.assert_kept();
                assert_whole(&fixture.target);
                fixture.assert_completes();
            });
        }
    });
}

#[test]
fn an_interrupted_local_copy_leaves_no_incomplete_files() {
    let client = Client::new();
    build(&client.path("s"));
    let from = client.path("s").display().to_string();
    // The two ends are one process, which must not end before both have cleaned up. One round would not show that.
    for (round, sent) in [Signal::INT, Signal::TERM].into_iter().cycle().take(8).enumerate() {
        let to = client.path(&format!("t{round}"));
        let running = client.begin(words_of(&from, &to.display().to_string()));
        under_way(&to);
        signal(&running.child, sent);
        running.finish().expect(130);
        // Asserted without waiting: both ends have ended with their process.
        assert!(has_no_writer(&client.state()), "round {round}");
        assert!(!unfinished(&to).is_empty(), "round {round}");
        assert_whole(&to);
        client.cp(0, words!["-r", from, to]);
        assert_copied(&client.path("s"), &to);
        assert_nothing_kept(&to, &client.state());
    }
    client.cp(0, words!["-r", from, client.path("t0")]);
    assert_copied(&client.path("s"), &client.path("t0"));
}

#[test]
fn a_job_interrupted_twice_ends_at_once() {
    let fixture = copy_fixture(true);
    // A frozen node would delay the end of the session after the first interrupt.
    let running = fixture.begin();
    fixture.node.freeze();
    let started = std::time::Instant::now();
    signal(&running.child, Signal::INT);
    until("the first is handled", LONG, || running.err().contains("interrupted") || started.elapsed().as_secs() > 0);
    signal(&running.child, Signal::INT);
    running.finish().expect(130);
    // The silence of a node is detected after 30 s.
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    fixture.node.thaw();
    fixture.assert_kept();
    assert_whole(&fixture.target);
}

#[test]
fn waiting_for_a_node_can_be_interrupted() {
    let mut fixture = copy_fixture(true);
    let running = fixture.begin();
    fixture.node.kill();
    // By the fourth pause it sleeps for eight seconds.
    until("it has tried three times", LONG, || running.err().matches("trying again").count() > 3);
    let started = std::time::Instant::now();
    signal(&running.child, Signal::INT);
    let outcome = running.finish().expect(130);
    assert!(started.elapsed() < Duration::from_secs(7), "{:?}", started.elapsed());
    assert!(outcome.err.contains("run the same command again"), "{}", outcome.err);
}

#[test]
fn a_killed_client_leaves_nothing_under_a_final_name() {
    std::thread::scope(|scope| {
        for push in [true, false] {
            scope.spawn(move || {
                let fixture = copy_fixture(push);
                let mut running = fixture.begin();
                running.child.kill().unwrap();
                running.child.wait().unwrap();
                fixture.assert_kept();
                assert_whole(&fixture.target);
                fixture.assert_completes();
            });
        }
    });
}

#[test]
fn a_killed_local_copy_is_resumed() {
    let client = Client::new();
    build(&client.path("s"));
    let (from, to) = (client.path("s").display().to_string(), client.path("t"));
    let mut running = client.begin(words_of(&from, &to.display().to_string()));
    under_way(&to);
    running.child.kill().unwrap();
    running.child.wait().unwrap();
    assert_whole(&to);
    assert!(!unfinished(&to).is_empty());
    client.cp(0, words!["-r", from, to]);
    assert_copied(&client.path("s"), &to);
    assert_nothing_kept(&to, &client.state());
}

#[test]
fn a_copy_to_a_killed_node_resumes_after_its_restart() {
    let mut fixture = copy_fixture(true);
    let running = fixture.begin();
    fixture.node.kill();
    assert_whole(&fixture.target);
    assert!(!unfinished(&fixture.target).is_empty());
    drop(running);
    fixture.node.restart();
    fixture.assert_kept();
    fixture.assert_completes();
}

#[test]
fn a_client_waits_for_a_node_that_comes_back() {
    std::thread::scope(|scope| {
        for push in [true, false] {
            scope.spawn(move || {
                let mut fixture = copy_fixture(push);
                let mut words = words_of(&fixture.from, &fixture.to);
                words.extend(words!["--json"]);
                let running = fixture.client.begin(words);
                until("a file is in place", LONG, || fs::read_dir(&fixture.target).is_ok_and(|list| list.count() > 2));
                fixture.node.kill();
                until("the client reports that it tries again", LONG, || running.err().contains("trying again"));
                let away = std::time::Instant::now();
                std::thread::sleep(std::time::Duration::from_secs(1));
                fixture.node.restart();
                let away = away.elapsed().as_secs_f64();
                // The receipt covers the job, not only its last attempt. Files that the first attempt put in place do not count as
                // skipped, except those of a push whose outcome had not reached the client yet.
                let receipt = running.finish().expect(0).json();
                let count = |what: &str| receipt[what].as_u64().unwrap();
                assert_eq!((&receipt["state"], count("files") + count("skipped")), (&"done".into(), FILES as u64));
                assert!(if push { count("skipped") < FILES as u64 } else { count("skipped") == 0 }, "{receipt}");
                let by = &receipt["limited_by"];
                let is_much = away > receipt["seconds"].as_f64().unwrap() / 2.0;
                assert!(!is_much || by["part"] == "outage", "away for {away} s: {receipt}");
                assert_copied(&fixture.source, &fixture.target);
                assert!(unfinished(&fixture.target).is_empty());
            });
        }
    });
}

#[test]
fn the_retry_limit_is_counted_from_the_last_progress() {
    std::thread::scope(|scope| {
        for push in [true, false] {
            scope.spawn(move || {
                let fixture = copy_fixture(push);
                // The path breaks and the node stays: how long it takes to start must not count.
                let line = ThrottledLine::to(&fixture.node, ThrottledLine::FREE);
                let by_line = |at: &str| at.replace(&fixture.node.at(""), &line.at(""));
                let mut words = words_at("10Mbit/s", &by_line(&fixture.from), &by_line(&fixture.to));
                words.extend(words!["--retry-for", "10s"]);
                let started = std::time::Instant::now();
                let running = fixture.client.begin(words);
                // The path breaks after the job has run for longer than `--retry-for`.
                until("the job has run for longer than --retry-for", LONG, || {
                    started.elapsed() > Duration::from_millis(10_200)
                });
                line.cut();
                until("the client reports that it tries again", LONG, || running.err().contains("trying again"));
                line.mend();
                running.finish().expect(0);
                assert_copied(&fixture.source, &fixture.target);
            });
        }
    });
}

#[test]
fn a_node_that_does_not_return_is_unreachable() {
    std::thread::scope(|scope| {
        for (push, retry_for) in [(true, "0s"), (false, "0s"), (true, "3s"), (false, "3s")] {
            scope.spawn(move || {
                let mut fixture = copy_fixture(push);
                let mut words = words_of(&fixture.from, &fixture.to);
                words.extend(words!["--retry-for", retry_for]);
                let running = fixture.client.begin(words);
                under_way(&fixture.target);
                fixture.node.kill();
                let outcome = running.finish().expect(5);
                assert!(outcome.err.contains(&fixture.node.address()), "{}", outcome.err);
                assert_whole(&fixture.target);
                fixture.node.restart();
                fixture.assert_completes();
            });
        }
    });
}

#[test]
fn a_node_exits_with_success_on_a_stop_signal() {
    let (mut node, client) = (Node::open(), Client::new());
    client.run(words!["ls", node.at("data")]).expect(0);
    assert_eq!(node.stop(), Some(0));
    client.run(words!["ls", node.at("data")]).refused(5, &[&node.address(), "longhaul serve"]);
}

#[test]
fn a_stopped_peer_is_noticed() {
    // A stopped process keeps its connections open and sends nothing: only the silence shows it.
    let fixture = copy_fixture(true);
    let mut words = words_of(&fixture.from, &fixture.to);
    words.extend(words!["--retry-for", "0s"]);
    let running = fixture.client.begin(words);
    under_way(&fixture.target);
    fixture.node.freeze();
    let outcome = running.finish().expect(5);
    assert!(outcome.err.contains("silent") && outcome.err.contains(&fixture.node.address()), "{}", outcome.err);
    fixture.node.thaw();
    until("the node has ended its part of the job", Duration::from_secs(90), || has_no_writer(&fixture.node.state()));
    fixture.assert_kept();
    assert_whole(&fixture.target);
}

/// The file is read over four connections with several requests under way on each: all of them break, and new ones go on.
#[test]
fn a_file_of_an_xrootd_server_arrives_whole_when_its_connections_break() {
    let node = Setup::new().data_export("ro").arg("--anonymous").arg("ro").arg("--plain").start();
    let client = Client::new();
    let bytes = pattern((48 << 20) + 4321);
    fs::write(node.data("f"), &bytes).unwrap();
    let line = ThrottledLine::to(&node, 16 << 20);
    let running = client.begin(words!["cp", line.root("data/f"), "f"]);
    line.wait_until_carried(20 << 20);
    line.cut();
    // Long enough for the next requests to find no server.
    std::thread::sleep(Duration::from_millis(300));
    line.mend();
    running.finish().expect(0);
    assert!(fs::read(client.path("f")).unwrap() == bytes);
}
