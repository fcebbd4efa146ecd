//! `longhaul demo`: one command starts a collaboration, and removes it at its end.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::node::LONGHAUL;
use crate::portal;
use crate::wait::{LONG, skipped, until, until_some};

/// A running demo, and its output.
struct Demo {
    child: Child,
    /// `HOST:PORT` of the portal.
    portal: String,
    key: String,
    output: String,
    took: Duration,
}

impl Demo {
    /// Starts a demo with these arguments and its directory below `dir`, and waits until it has printed the address to open.
    fn start(words: &[&str], dir: &Path) -> Demo {
        let begun = Instant::now();
        let mut command = Command::new(LONGHAUL);
        command.arg("demo").args(words).env("TMPDIR", dir).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut output = String::new();
        while !output.contains("Ctrl-C") {
            output += &(lines.next().unwrap_or_else(|| panic!("the demo has ended: {output}")).unwrap() + "\n");
        }
        // The rest of its output is read, so that it can print.
        std::thread::spawn(move || lines.for_each(drop));
        let after = |word: &str| output.split(word).nth(1).unwrap().split_whitespace().next().unwrap().to_owned();
        let portal = after("portal: ").trim_start_matches("http://").trim_end_matches('/').to_owned();
        let key = after("#key=");
        Demo { child, portal, key, output, took: begun.elapsed() }
    }

    fn get(&self, path: &str) -> String {
        let mut socket = TcpStream::connect(&self.portal).unwrap();
        let (host, key) = (&self.portal, &self.key);
        write!(
            socket,
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {key}\r\nAccept: text/html\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        answer
    }

    fn json(&self, path: &str) -> Value {
        let answer = self.get(path);
        let body = answer.split_once("\r\n\r\n").unwrap().1;
        serde_json::from_str(body.trim()).unwrap_or_else(|error| panic!("{error}: {answer}"))
    }

    /// Ends it as Ctrl-C does; asserts that nothing is left below the directory.
    fn end(mut self, dir: &Path) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        until("the demo ends", LONG, || self.child.try_wait().unwrap().is_some());
        assert!(self.child.wait().unwrap().success(), "{}", self.output);
        let left: Vec<_> = std::fs::read_dir(dir).unwrap().flatten().map(|entry| entry.file_name()).collect();
        assert!(left.is_empty(), "{left:?} is left");
        assert!(TcpStream::connect(&self.portal).is_err(), "a process still listens");
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until a job has moved everything.
fn moves(demo: &Demo) {
    until("a job is done", LONG, || {
        let jobs = demo.json("/api/v1/jobs");
        let all = jobs["jobs"].as_array().cloned().unwrap_or_default();
        assert!(all.iter().all(|job| job["failed"] == 0), "{jobs}");
        all.iter().any(|job| job["state"] == "done" && job["done_bytes"].as_u64() > Some(0))
    });
}

#[test]
fn a_demo_over_loopback_moves_data_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let demo = Demo::start(&["--loopback"], dir.path());
    // 30 s are promised, on a machine without other load.
    assert!(demo.took < 5 * LONG, "{:?}", demo.took);
    assert!(demo.output.contains("over plain loopback (as asked for)"), "{}", demo.output);
    assert!(demo.get("/").starts_with("HTTP/1.1 200"));
    moves(&demo);
    let described = demo.json("/api/v1/collaboration");
    assert_eq!(described["link"]["amsterdam-perth"]["mark"], 0.5);
    assert!(
        described.to_string().contains("perth") && !described.to_string().contains("lhk1_"),
        "keys are not printed"
    );
    demo.end(dir.path());
}

#[test]
fn an_emulated_network_has_a_soft_failure_that_the_watch_of_a_demo_finds() {
    const TEST: &str = "demo::an_emulated_network_has_a_soft_failure_that_the_watch_of_a_demo_finds";
    if let Err(why) = lab::check_prerequisites() {
        return skipped(TEST, &why.to_string());
    }
    let dir = tempfile::tempdir().unwrap();
    let demo = Demo::start(&[], dir.path());
    assert!(demo.output.contains("an emulated network"), "{}", demo.output);
    let alarm = until_some("the loss is found", Duration::from_secs(240), || {
        let alarms = demo.json("/api/v1/watch/alarms");
        let all = alarms["alarms"].as_array().cloned().unwrap_or_default();
        all.into_iter().find(|alarm| alarm["kind"] == "loss")
    });
    let ends = [alarm["from"].as_str().unwrap(), alarm["to"].as_str().unwrap()];
    assert!(ends.contains(&"geneva") && ends.contains(&"perth"), "{alarm}");
    moves(&demo);
    if let Some(portal) = portal::portal(TEST) {
        let link = format!("http://{}/#key={}", demo.portal, demo.key);
        portal::run(&portal, "tests/demo.mjs", &[("LINK", &link)]);
    }
    demo.end(dir.path());
}
