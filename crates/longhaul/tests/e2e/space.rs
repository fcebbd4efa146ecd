//! Full targets: a job waits for free space and continues, or reports how much it needs; existing files are kept.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::client::{Client, Running, unfinished, words};
use crate::control::lift_limit;
use crate::node::{Node, Setup};
use crate::tree::{pattern, set_time};
use crate::unfinished_state::{assert_nothing_kept, covered, has_no_writer};
use crate::wait::{LONG, until};
use crate::wrappers::{Mount, mounted, with_mounts};

const MIB: usize = 1 << 20;
/// The size of the device in [`SmallExport`].
const DEVICE: &str = "size=32m";
/// Slow enough for something to happen in the middle of it; then the limit is lifted.
const SLOW: &str = "16Mbit/s";

/// A client, and a node whose export is a small device.
struct SmallExport {
    // Unmounted before its parent directory is removed.
    _mount: Mount,
    client: Client,
    node: Node,
    device: PathBuf,
}

impl SmallExport {
    /// None where nothing can be mounted.
    fn new(test: &str) -> Option<SmallExport> {
        let client = Client::new();
        let device = client.path("device");
        let mount = mounted(&device, DEVICE, test)?;
        let node = Setup::new().export("data", &device, "rw").arg("--anonymous").arg("rw").start();
        Some(SmallExport { _mount: mount, client, node, device })
    }

    fn fill(&self, bytes: usize) -> PathBuf {
        let ballast = self.device.join("ballast");
        fs::write(&ballast, vec![1; bytes]).unwrap();
        ballast
    }

    /// The target of a file of this name, written by the node or by the client.
    fn target(&self, push: bool, name: &str) -> String {
        if push { self.node.at(&format!("data/{name}")) } else { self.device.join(name).display().to_string() }
    }

    fn state(&self, push: bool) -> PathBuf {
        if push { self.node.state() } else { self.client.state() }
    }

    #[track_caller]
    fn assert_arrived(&self, push: bool, source: &Path, name: &str) {
        assert!(fs::read(self.device.join(name)).unwrap() == fs::read(source).unwrap(), "{name} differs");
        assert_nothing_kept(&self.device, &self.state(push));
    }
}

/// Writes a file with a hole, for whose data no space is reserved at the start.
fn with_hole(path: &Path, data: usize) {
    let file = File::create(path).unwrap();
    file.set_len((data + 4 * MIB) as u64).unwrap();
    file.write_all_at(&pattern(data), 0).unwrap();
}

/// The cause for which a job reports that it waits; empty while it runs.
fn waiting_for(running: &Running) -> String {
    let out = running.out();
    let last = out.lines().rev().find_map(|line| serde_json::from_str::<Value>(line).ok()).unwrap_or_default();
    last["waiting_for"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_job_waits_for_space_and_continues() {
    const TEST: &str = "space::a_job_waits_for_space_and_continues";
    with_mounts(TEST, || {
        let Some(small) = SmallExport::new(TEST) else { return };
        let source = small.client.write("s", pattern(16 * MIB));
        for push in [true, false] {
            let ballast = small.fill(24 * MIB);
            let running = small.client.begin(words!["cp", source, small.target(push, "f"), "--json"]);
            until("the job states what it waits for", LONG, || waiting_for(&running).contains("16.0 MiB needed"));
            assert!(waiting_for(&running).contains("8.00 MiB free"), "{}", waiting_for(&running));
            let listed = small.client.run(words!["job", "list"]).expect(0).text();
            assert!(listed.lines().any(|line| line.contains("waiting")), "{listed}");
            // The waiting job still runs, and has not begun to use the remaining space.
            assert!(!small.device.join("f").exists() && unfinished(&small.device).is_empty());
            std::thread::sleep(Duration::from_secs(2));
            fs::remove_file(ballast).unwrap();
            let receipt = running.finish().expect(0).json();
            assert_eq!(receipt["state"], "done", "{receipt}");
            let by = &receipt["limited_by"];
            assert!(by["part"] == "space" && by["evidence"].as_str().unwrap().contains("was full for"), "{by}");
            small.assert_arrived(push, &source, "f");
            fs::remove_file(small.device.join("f")).unwrap();
        }
    });
}

#[test]
fn bytes_written_before_the_job_gave_up_are_resumed() {
    const TEST: &str = "space::bytes_written_before_the_job_gave_up_are_resumed";
    with_mounts(TEST, || {
        let Some(small) = SmallExport::new(TEST) else { return };
        let source = small.client.path("s");
        with_hole(&source, 16 * MIB);
        for push in [true, false] {
            let ballast = small.fill(24 * MIB);
            let words = words!["cp", source, small.target(push, "f"), "--streams", "2"];
            let started = Instant::now();
            let outcome = small.client.run([words.clone(), words!["--wait-space", "1s"]].concat()).expect(6);
            assert!((1..100).contains(&started.elapsed().as_secs()), "{:?}", started.elapsed());
            assert!(outcome.err.contains("free space"), "{}", outcome.err);
            until("no process writes any more", LONG, || has_no_writer(&small.state(push)));
            let there = covered(&small.state(push));
            assert!(there >= 4 << 20, "{there} bytes are written down");
            fs::remove_file(ballast).unwrap();
            let receipt = small.client.cp(0, words[1..].to_vec());
            assert!(receipt["resumed_bytes"].as_u64().unwrap() >= there, "{there} were there: {receipt}");
            small.assert_arrived(push, &source, "f");
            fs::remove_file(small.device.join("f")).unwrap();
        }
    });
}

#[test]
fn a_file_that_can_never_fit_is_refused_at_once() {
    const TEST: &str = "space::a_file_that_can_never_fit_is_refused_at_once";
    with_mounts(TEST, || {
        let Some(small) = SmallExport::new(TEST) else { return };
        let source = small.client.write("s", pattern(33 * MIB));
        for push in [true, false] {
            let started = Instant::now();
            let outcome = small.client.run(words!["cp", source, small.target(push, "f")]).expect(6);
            assert!(started.elapsed() < Duration::from_secs(100), "{:?}", started.elapsed());
            let error = outcome.err;
            assert!(error.contains("too small") && error.contains("33.0 MiB needed"), "{error}");
            assert!(fs::read_dir(&small.device).unwrap().next().is_none());
        }
    });
}

#[test]
fn free_space_is_not_promised_twice() {
    const TEST: &str = "space::free_space_is_not_promised_twice";
    with_mounts(TEST, || {
        let Some(small) = SmallExport::new(TEST) else { return };
        let source = small.client.write("s", pattern(20 * MIB));
        let begin = |name: &str| {
            let words = words!["cp", source, small.target(true, name), "--json", "--limit", SLOW];
            (small.client.begin(words), small.device.join(name))
        };
        let jobs = [begin("one"), begin("two")];
        until("one of them waits", LONG, || jobs.iter().any(|(job, _)| waiting_for(job).contains("20.0 MiB needed")));
        let at = jobs.iter().position(|(job, _)| !waiting_for(job).is_empty()).unwrap();
        assert_eq!(lift_limit(&small.client), 2);
        let [first, second] = jobs;
        let ((runs, there), (waits, later)) = if at == 1 { (first, second) } else { (second, first) };
        let receipt = runs.finish().expect(0).json();
        assert_eq!(receipt["resent_bytes"], 0, "{receipt}");
        assert!(fs::read(&there).unwrap() == fs::read(&source).unwrap());
        assert!(!waiting_for(&waits).is_empty() && !later.exists(), "there is room for one only");
        fs::remove_file(there).unwrap();
        waits.finish().expect(0);
        small.assert_arrived(true, &source, later.file_name().unwrap().to_str().unwrap());
    });
}

#[test]
fn a_job_waits_when_others_take_the_space_meanwhile() {
    const TEST: &str = "space::a_job_waits_when_others_take_the_space_meanwhile";
    with_mounts(TEST, || {
        let Some(small) = SmallExport::new(TEST) else { return };
        let source = small.client.path("s");
        with_hole(&source, 20 * MIB);
        for push in [true, false] {
            let words = words!["cp", source, small.target(push, "f"), "--json", "--limit", SLOW];
            let running = small.client.begin(words);
            until("it is under way", LONG, || covered(&small.state(push)) >= 2 << 20);
            // All space that is free by now.
            let _ = fs::write(small.device.join("ballast"), vec![1; 32 * MIB]);
            until("the job waits", LONG, || waiting_for(&running).contains("full"));
            lift_limit(&small.client);
            fs::remove_file(small.device.join("ballast")).unwrap();
            let receipt = running.finish().expect(0).json();
            assert_eq!((&receipt["state"], &receipt["failed"]), (&"done".into(), &0.into()), "{receipt}");
            small.assert_arrived(push, &source, "f");
            fs::remove_file(small.device.join("f")).unwrap();
        }
    });
}

#[test]
fn space_reserved_by_an_earlier_attempt_is_not_requested_again() {
    const TEST: &str = "space::space_reserved_by_an_earlier_attempt_is_not_requested_again";
    with_mounts(TEST, || {
        let Some(small) = SmallExport::new(TEST) else { return };
        let source = small.client.write("s", pattern(24 * MIB));
        for (push, changed) in [(true, false), (false, false), (true, true), (false, true)] {
            let words = words!["cp", source, small.target(push, "f"), "--streams", "2"];
            let mut running = small.client.begin([words.clone(), words!["--limit", SLOW]].concat());
            until("it is under way", LONG, || covered(&small.state(push)) >= 2 << 20);
            running.child.kill().unwrap();
            running.child.wait().unwrap();
            until("no process writes any more", LONG, || has_no_writer(&small.state(push)));
            if changed {
                // An unfinished file that is no longer needed must not keep the space.
                set_time(&source, 1_700_000_000 + i64::from(push), 0);
            }
            let receipt = small.client.cp(0, [words[1..].to_vec(), words!["--wait-space", "0s"]].concat());
            assert_eq!(receipt["resumed_bytes"].as_u64().unwrap() == 0, changed, "{receipt}");
            small.assert_arrived(push, &source, "f");
            fs::remove_file(small.device.join("f")).unwrap();
        }
    });
}
